"""`python -m bench.dashboard`: CPU of a job's process, with and without open pages, in turns.

Answer   A job of many queries works a fixed number of rows off, at a steady pace; its process says how many CPU seconds
         that took. In every second turn a dashboard is open and other processes read its events, as pages do. The cost
         is the part of it that the threads of reports and pages used, by their own clocks; the difference of the
         medians has the noise of the machine in it.
Limits   Pages are readers of the event stream; what a browser asks for when it opens is not in it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_READER = "import sys, urllib.request\nfor _ in urllib.request.urlopen(sys.argv[1]): pass"


def work(queries: int, seconds: int, pages: int) -> None:
    """One turn, in a process of its own; prints its CPU seconds."""
    from eddyline import Session

    session = Session(keep_results=False)
    for name, column in ("sv", "tw"):
        session.execute(f"CREATE STREAM {name} (k BIGINT, {column} DOUBLE, ts TIMESTAMP) WITH (time = 'ts')")
    for n in range(queries):
        session.query(f"q{n}", f"SELECT k, v FROM s WHERE v > {0.9 + n / (20.0 * queries)} AND k >= {n % 7}")
    for n in range(10):
        session.query(
            f"j{n}", f"SELECT s.k FROM s [RANGE 10 SECONDS], t [RANGE 10 SECONDS] WHERE s.k = t.k AND t.w > {n / 10}"
        )
    address = session.dashboard() if pages else ""
    rows = 20_000
    times = pa.array([n * 500_000 // rows for n in range(rows)])
    parts = [
        {
            "k": pa.array([(n * 7919) % 10_000 for n in range(rows)]),
            name: pa.array([((n * 104_729) % 1_000) / 1_000 for n in range(rows)]),
        }
        for name in ("v", "w")
    ]
    readers: list[subprocess.Popen[bytes]] = []
    session.start()
    try:
        for tick in range(2 * seconds + 4):
            if tick == 4:
                # Compiled and warm: the turn begins, with its pages open.
                _settle(session, 4 * rows)
                readers = [
                    subprocess.Popen([sys.executable, "-c", _READER, address.replace("/?", "/events?")])
                    for _ in range(pages)
                ]
                time.sleep(3.0)
                began, started, before = time.process_time(), time.monotonic(), _shown(session)
            until = time.monotonic() + 0.5
            for stream, part in zip("st", parts, strict=True):
                session.push(stream, pa.table({**part, "ts": _moved(times, tick)}))
            time.sleep(max(0.0, until - time.monotonic()))
        _settle(session, (2 * seconds + 4) * rows)
        used, took, shown = time.process_time() - began, time.monotonic() - started, _shown(session) - before
        made = sum(session.stats()["results"].values())
        print(json.dumps({"cpu": used, "seconds": took, "shown": shown, "results": made}))
    finally:
        for reader in readers:
            reader.kill()
            reader.wait()
        session.stop()


def _settle(session: Any, rows: int) -> None:
    """Wait until so many rows of each stream have been worked off."""
    while min(session.stats()["rows_in"].values()) < rows:
        time.sleep(0.5)


def _shown(session: Any) -> float:
    """CPU seconds of the thread that makes reports, as far as it made them, and of the one that serves pages."""
    reporter = session.driver.reporter
    threads = [server._thread for server in session._served]
    clocks = [time.clock_gettime(time.pthread_getcpuclockid(thread.ident)) for thread in threads if thread is not None]
    return sum(clocks) + (0.0 if reporter is None else reporter.spent)


def _moved(times: pa.Array, tick: int) -> pa.Array:
    return pc.cast(pc.add(times, tick * 500_000), pa.timestamp("us"))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.dashboard")
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--pages", type=int, default=20)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument(
        "--turn", type=int, metavar="PAGES", help="one turn with so many pages, for the process of a turn"
    )
    args = parser.parse_args()
    if args.turn is not None:
        work(args.queries, args.seconds, args.turn)
        return 0
    found: dict[int, list[float]] = {0: [], args.pages: []}
    parts: list[float] = []
    for _ in range(args.turns):
        for pages in found:
            command = [
                sys.executable,
                "-m",
                "bench.dashboard",
                "--turn",
                str(pages),
                "--queries",
                str(args.queries),
                "--seconds",
                str(args.seconds),
            ]
            told = json.loads(
                subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1]
            )
            found[pages].append(told["cpu"])
            if pages:
                parts.append(100 * told["shown"] / told["cpu"])
            part = f"{100 * told['shown'] / told['cpu']:.2f} % of it for reports and pages"
            print(
                f"{pages} pages: {told['cpu']:.2f} s of CPU in {told['seconds']:.1f} s, {part}, {told['results']:,} results",
                flush=True,
            )
    without, with_pages = statistics.median(found[0]), statistics.median(found[args.pages])
    share = 100 * (with_pages - without) / args.seconds
    print(f"{args.queries:,} queries, {args.pages} pages: {with_pages:.2f} s against {without:.2f} s")
    print(
        f"reports and pages take {statistics.median(parts):.1f} % of the CPU time of the job's process, by the clocks of their threads"
    )
    print(f"both turns differ by {share:.1f} % of a core")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
