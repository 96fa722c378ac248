"""Rows that are refused before they are stored: joins over streams whose keys are closed early answer as without
punctuations.

Keys of a stream live for a short while and are closed after their last row, mostly; other streams have rows of them
much later, so that many rows have a partner that is closed and gone. Windows, filters, references of one stream and
queries side by side are drawn.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest

from eddyline import Session
from eddyline.settings import Settings
from tests.seeds import cases, first_seed

BLOCK, BLOCKS = 15, cases(4, soak=6)
FIRST = first_seed(770_000)
WINDOWS = ("", "", "[RANGE 3 SECONDS]", "[RANGE 20 SECONDS]", "[ROWS 5]", "[ROWS 40]")
SECOND = 1_000_000


def stream(rng: Random, lives: float, closes: float) -> pa.Table:
    """A key opens every half second; rows have one that opened up to `lives` seconds ago. A key is closed after its
    last row, or never."""
    ts = np.sort(np.array([rng.randrange(40 * SECOND) for _ in range(rng.choice((60, 150)))]))
    keys = [max(0, int(at / SECOND * 2) - rng.randrange(int(2 * lives) + 1)) for at in ts.tolist()]
    last = dict(zip(keys, ts.tolist(), strict=True))
    rows = [(at, 0, key, rng.randrange(100), False) for at, key in zip(ts.tolist(), keys, strict=True)]
    # After the rows of that instant: a promise sorts behind them.
    rows += [(at, 1, key, None, True) for key, at in last.items() if rng.random() < closes]
    rows.sort(key=lambda row: row[:2])
    times, _, key, values, done = zip(*rows, strict=True)
    return pa.table(
        {
            "k": pa.array(key),
            "v": pa.array(values, pa.int64()),
            "done": pa.array(done),
            "ts": pa.array(times).cast(pa.timestamp("us")),
        }
    )


def query(rng: Random, names: str) -> str:
    """A join of two to four references, some of them perhaps of one stream."""
    count = rng.choice((2, 2, 3, 4))
    sources = (
        rng.sample(names, min(count, len(names))) if rng.random() < 0.7 else [rng.choice(names) for _ in range(count)]
    )
    aliases = [f"r{n}" for n in range(len(sources))]
    tables = ", ".join(
        f"{source} {rng.choice(WINDOWS)} AS {alias}" for source, alias in zip(sources, aliases, strict=True)
    )
    where = [f"{rng.choice(aliases[:n])}.k = {aliases[n]}.k" for n in range(1, len(aliases))]
    where += [f"{alias}.v < {rng.randrange(30, 100)}" for alias in aliases if rng.random() < 0.2]
    where += [f"{aliases[0]}.v <= {aliases[-1]}.v + 20"] if rng.random() < 0.2 else []
    selected = rng.sample(aliases, rng.randrange(1, len(aliases) + 1))
    return f"SELECT {', '.join(f'{a}.k AS {a}k, {a}.v AS {a}v' for a in selected)} FROM {tables} WHERE {' AND '.join(where)}"


def answers(
    tables: dict[str, pa.Table], queries: list[str], epochs: int, settings: Settings
) -> tuple[list[list[object]], int, int]:
    """The results of the queries, dropped rows, and the most rows that were stored."""
    with Session(settings) as session:
        for name in tables:
            session.execute(
                f"CREATE STREAM {name} (k BIGINT, v BIGINT, done BOOLEAN, ts TIMESTAMP) WITH (time = 'ts', punctuation = 'done')"
            )
        standing = [session.query(f"q{n}", select) for n, select in enumerate(queries)]
        for epoch in range(epochs):
            for name, table in tables.items():
                first, last = (len(table) * n // epochs for n in (epoch, epoch + 1))
                session.push(name, table.slice(first, last - first))
            session.step()
        session.run(once=True, final=False)
        stats = session.stats()
        assert not any(stats["violations"].values())
        found = [sorted(map(repr, one.take().to_pylist())) for one in standing]
    return found, stats.get("dropped_rows", 0), stats["peak_stored_rows"]


@pytest.mark.property
@pytest.mark.parametrize("block", range(BLOCKS))
def test_answers_are_those_without_punctuations(block: int) -> None:
    dropped = stored = stored_without = results = 0
    for seed in range(FIRST + block * BLOCK, FIRST + (block + 1) * BLOCK):
        rng = Random(seed)
        names = "abcd"[: rng.choice((2, 3, 4))]
        tables = {name: stream(rng, rng.choice((1, 3, 30)), rng.choice((0.1, 0.8, 1))) for name in names}
        queries = [query(rng, names) for _ in range(rng.choice((1, 1, 2, 3)))]
        epochs, plan = rng.choice((1, 2, 5, 20)), rng.choice(("auto", "mjoin"))
        wanted, _, without = answers(tables, queries, epochs, Settings(punctuations="off", plan=plan))
        found, lost, peak = answers(
            tables, queries, rng.choice((epochs, 3)), Settings(purge=rng.choice(("auto", "eager")), plan=plan)
        )
        assert found == wanted, (seed, queries)
        dropped, stored, stored_without = dropped + lost, stored + peak, stored_without + without
        results += sum(map(len, wanted))
    assert dropped > 20 and results > 500 and stored < stored_without
