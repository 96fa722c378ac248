"""Large jobs: thousands of queries, hundreds of streams and long texts cost per query what small ones cost."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from eddyline import Session
from eddyline.language import bind_script
from tests.runtime.test_growth import resident

STREAM = "CREATE STREAM s{} (k BIGINT, v BIGINT, name STRING, ts TIMESTAMP) WITH (time = 'ts');"
#: Forms of queries that users have many of: filters, joins and aggregates that differ in constants.
FORMS = (
    "CREATE QUERY q{0} AS SELECT k, v FROM s{1} WHERE v > {0} AND name <> 'n{0}';",
    "CREATE QUERY q{0} AS SELECT a.k, b.v FROM s{1} [RANGE {2} SECONDS] a, s{3} [RANGE 5 SECONDS] b WHERE a.k = b.k AND a.v < {0};",
    "CREATE QUERY q{0} AS SELECT k, count(*) AS n, max(v) AS m FROM s{1} [RANGE {2} SECONDS] WHERE v < {0} GROUP BY k EMIT EVERY 5 SECOND;",
)


def job(queries: int, streams: int) -> str:
    made = [STREAM.format(number) for number in range(streams)]
    made += [FORMS[n % 3].format(n, n % streams, 1 + n % 4, (n + 1) % streams) for n in range(queries)]
    return "\n".join(made)


def cpu(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def run(text: str, streams: int, steps: int = 3) -> tuple[float, float, int]:
    """CPU seconds until all queries stand, and per epoch; memory."""
    with Session(keep_results=False) as session:
        stands = cpu(lambda: (session.execute(text), session.step()))
        rows = [(n % 7, n, f"n{n}", n * 100_000) for n in range(20)]

        def epochs() -> None:
            for step in range(steps):
                for number in range(streams):
                    session.push(f"s{number}", [(k, v, name, ts + step * 2_000_000) for k, v, name, ts in rows])
                session.step()

        return stands, cpu(epochs) / steps, resident()


def steps_of(work: Callable[[], object]) -> int:
    """Steps of Python's interpreter: unlike seconds they are the same on every machine."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def test_a_query_costs_the_same_beside_few_and_beside_many() -> None:
    """Found by `bench.turns`: each query that came looked through the settings of all that were there."""
    per_query = {}
    for count in (10, 60, 240):
        with Session(keep_results=False) as session:
            session.execute(STREAM.format(0) + "\n".join(FORMS[0].format(n, 0) for n in range(count)))
            per_query[count] = steps_of(lambda: session.step()) / count
    assert per_query[240] < 1.02 * per_query[60], per_query


@pytest.mark.long
@pytest.mark.timeout(0)
@pytest.mark.parametrize(
    ("small", "large"), [((500, 10), (5_000, 10)), ((50, 50), (500, 500))], ids=["queries", "streams"]
)
def test_many_queries_and_streams(small: tuple[int, int], large: tuple[int, int]) -> None:
    run(job(30, 10), 10)  # what is loaded or compiled once
    found = {}
    for queries, streams in (small, large):
        text = job(queries, streams)
        parsed = cpu(lambda: bind_script(text))  # noqa: B023
        stands, epoch, memory = run(text, streams)
        found[queries] = (parsed, stands, epoch)
        print(
            f"{queries:,} queries, {streams} streams, {len(text) / 1e6:.2f} MB: bound in {parsed:.2f} s, stand after {stands:.2f} s,",
            f"{1e3 * epoch:.0f} ms per epoch, {memory / 1e6:.0f} MB",
            flush=True,
        )
    ratio = large[0] / small[0]
    assert all(more <= 2 * ratio * less for less, more in zip(*found.values(), strict=True)), found


@pytest.mark.long
@pytest.mark.parametrize("form", ["values", "columns", "comment"])
def test_a_megabyte_of_text(form: str) -> None:
    """One statement of 1 MB costs at most twice per byte what one of 100 kB costs."""

    def text(size: int) -> str:
        texts = {
            "values": lambda: f"SELECT k FROM s0 WHERE v IN ({', '.join(map(str, range(size // 8)))})",
            "columns": lambda: f"SELECT {', '.join(f'v + {n} AS c{n}' for n in range(size // 20))} FROM s0",
            "comment": lambda: f"SELECT k FROM s0 /* {'x' * size} */ WHERE v > 1",
        }
        return f"{STREAM.format(0)} CREATE QUERY q AS {texts[form]()};"

    seconds = {}
    for size in (100_000, 1_000_000):
        made = text(size)
        with Session(keep_results=False) as session:
            seconds[size] = cpu(lambda: (session.execute(made), session.push("s0", [(1, 1, "x", 0)]), session.step()))  # noqa: B023
        print(
            f"{form}: {len(made) / 1e6:.2f} MB in {seconds[size]:.2f} CPU seconds, {resident() / 1e6:.0f} MB",
            flush=True,
        )
    assert seconds[1_000_000] <= 20 * max(seconds[100_000], 0.05), seconds
