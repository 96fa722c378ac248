"""A job in a process of its own, with rows that keep coming, for the tests in a browser and for the pictures."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from random import Random

from eddyline.dashboard.token import job_token
from tests import forks

_STREAMS = {
    "auctions": "item BIGINT, category STRING, seller BIGINT, ts TIMESTAMP",
    "bids": "item BIGINT, bidder BIGINT, price DOUBLE, ts TIMESTAMP",
    "people": "person BIGINT, name STRING, ts TIMESTAMP",
}
_QUERIES = """
CREATE QUERY early AS SELECT a.category, b.price FROM auctions [RANGE 20 SECONDS] a, bids [RANGE 20 SECONDS] b
  WHERE a.item = b.item AND b.price > 40;
CREATE QUERY sellers AS SELECT p.name, a.category, b.price
  FROM auctions [RANGE 30 SECONDS] a, bids [RANGE 10 SECONDS] b, people [RANGE 60 SECONDS] p WHERE a.item = b.item AND a.seller = p.person;
CREATE QUERY per_category AS SELECT category, COUNT(*) AS auctions FROM auctions [RANGE 30 SECONDS] GROUP BY category;
"""
_TEMPLATE = """
CREATE TEMPLATE prices AS SELECT item, COUNT(*) AS bids, MAX(price) AS highest FROM bids [RANGE 10 MINUTES] GROUP BY item;
"""
_CATEGORIES = ["art", "books", "coins", "<script>alert('x')</script>"]


class LiveJob:
    """`eddyline run … --dashboard PORT` and a feeder beside it."""

    def __init__(self, folder: Path, engine: str = "embedded", filters: int = 40, rows: int = 200) -> None:
        self.folder = folder
        self.engine = engine
        self.state = str(folder / "state")
        self.process: subprocess.Popen[str] | None = None
        self.port = 0
        self._rows = rows
        self._stop = threading.Event()
        self._files = 0
        self._random = Random(7)
        for name in _STREAMS:
            (folder / "data" / name).mkdir(parents=True)
        declared = "".join(
            f"CREATE STREAM {name} ({columns}) WITH (format = 'jsonl', path = '{folder}/data/{name}', time = 'ts', "
            "lateness = '1 second', idle = '3 seconds');\n"
            for name, columns in _STREAMS.items()
        )
        dear = "".join(
            f"CREATE QUERY dear_{n} AS SELECT item, price FROM bids WHERE price > {50 + n};\n" for n in range(filters)
        )
        job = declared + _QUERIES + dear + (_TEMPLATE if engine == "embedded" else "")
        (folder / "job.sql").write_text(job)
        self.feed()
        self._feeder = threading.Thread(target=self._keep_feeding, daemon=True)
        self._feeder.start()

    # -- the job

    def start(self) -> str:
        """Start it, or start it again on the same port; returns the address that it printed."""
        command = [
            sys.executable,
            "-m",
            "eddyline",
            "run",
            str(self.folder / "job.sql"),
            "--checkpoint",
            self.state,
            "--engine",
            self.engine,
        ]
        command += [
            "--dashboard",
            str(self.port),
            "--out",
            str(self.folder / "out"),
            "--stats",
            str(self.folder / "stats.json"),
            "--quiet",
        ]
        command += ["--master", "local[2]"] if self.engine == "spark" else []
        log = open(self.folder / "log", "a")  # noqa: SIM115
        start = subprocess.Popen if self.engine == "spark" else forks.Command
        self.process = start(command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=self.folder)
        log.close()
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("dashboard: "):
                address = line.removeprefix("dashboard: ").strip()
                self.port = int(address.split(":")[2].split("/")[0])
                assert address.endswith(f"/?token={job_token(self.state)}")
                return address
        raise AssertionError((self.folder / "log").read_text())

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def stop(self) -> dict[str, object]:
        """End it as a user does; returns what `--stats` wrote."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=240)
        found: dict[str, object] = json.loads((self.folder / "stats.json").read_text())
        return found

    def close(self) -> None:
        self._stop.set()
        self._feeder.join()
        if self.process is not None and self.process.poll() is None:
            self.kill()

    # -- its rows

    def _keep_feeding(self) -> None:
        while not self._stop.wait(0.5):
            self.feed()

    def feed(self) -> None:
        """Half a second of rows, a late one and a bad one among them now and then."""
        self._files += 1
        draw, now = self._random, time.time()
        parts: dict[str, list[dict[str, object]]] = {name: [] for name in _STREAMS}
        for n in range(self._rows):
            stamp = _text(now - 0.5 + 0.5 * n / self._rows)
            parts["bids"].append(
                {
                    "item": draw.randrange(300),
                    "bidder": draw.randrange(99),
                    "price": round(draw.random() * 100, 2),
                    "ts": stamp,
                }
            )
            if n % 8 == 0:
                parts["auctions"].append(
                    {
                        "item": draw.randrange(300),
                        "category": draw.choice(_CATEGORIES),
                        "seller": draw.randrange(50),
                        "ts": stamp,
                    }
                )
            if n % 40 == 0:
                parts["people"].append(
                    {"person": draw.randrange(50), "name": f"person {draw.randrange(50)}", "ts": stamp}
                )
        if self._files % 4 == 0:
            parts["bids"].append({"item": 1, "bidder": 1, "price": 1.0, "ts": _text(now - 600)})
        if self._files % 6 == 0:
            parts["bids"].append({"item": "no number", "bidder": 1, "price": 1.0, "ts": _text(now)})
        for name, rows in parts.items():
            path = self.folder / "data" / name / f"{self._files:06d}.jsonl"
            hidden = path.with_name(f".{path.name}")
            hidden.write_text("".join(json.dumps(row) + "\n" for row in rows))
            os.rename(hidden, path)


def _text(wall: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(wall)) + f".{int(wall % 1 * 1e6):06d}"
