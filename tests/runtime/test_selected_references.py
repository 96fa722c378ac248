"""A SELECT list that reads some references of a join: the same results as the whole list has, in the same order, column
by column."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from eddyline import Session
from eddyline.settings import Settings

NAMES = "abcd"
EQUAL = "a.k = b.k AND b.k = c.k AND c.k = d.k"


def answers(selects: list[str], where: str, window: str, **settings: object) -> list[list[tuple[object, ...]]]:
    """The results of the SELECT lists, each of a query of its own."""
    found = []
    for select in selects:
        session = Session(Settings(**settings))  # type: ignore[arg-type]
        for name in NAMES:
            session.execute(f"CREATE STREAM {name} (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (time = 'ts')")
        query = session.query(
            "q", f"SELECT {select} FROM {', '.join(f'{n} {window} AS {n}' for n in NAMES)} WHERE {where}"
        )
        rng = np.random.default_rng(7)
        for epoch in range(3):
            for name in NAMES:
                times = np.sort(rng.integers(0, 100, 30)) + 100 * epoch
                rows = zip(
                    rng.integers(0, 12, 30).tolist(), rng.integers(0, 99, 30).tolist(), times.tolist(), strict=True
                )
                session.push(name, [{"k": k, "v": v, "ts": ts * 1_000_000} for k, v, ts in rows])
            session.step()
        session.run(once=True)
        found.append([tuple(row.values()) for row in query.table().to_pylist()])
    return found


@pytest.mark.parametrize("plan", ["mjoin", "auto"])
@pytest.mark.parametrize("window", ["[RANGE 80 SECONDS]", "[ROWS 20]"])
@pytest.mark.parametrize("where", [EQUAL, f"{EQUAL} AND a.v < c.v + 40 AND b.v + d.v > 30"])
def test_fewer_references_give_the_same_results(plan: str, window: str, where: str) -> None:
    lists = [of for size in (0, 1, 2) for of in combinations(NAMES, size)]
    selects = [", ".join(f"{name}.v AS {name}" for name in of) or "1 AS one" for of in lists]
    [whole, *some] = answers([", ".join(f"{name}.v AS {name}" for name in NAMES), *selects], where, window, plan=plan)
    assert len(whole) > 100
    for of, rows in zip(lists, some, strict=True):
        expected = [(*(row[NAMES.index(name)] for name in of), row[-1]) for row in whole]
        assert rows == (expected if of else [(1, row[-1]) for row in whole]), of
