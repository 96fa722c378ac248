"""Queries over different sets of streams probe once for all of them, and answer as if each had probed for itself."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from eddyline import Session
from eddyline.operators.join.sharing.shared_probes import SharedProbes
from eddyline.runtime.engine.units.joins import JoinKind
from eddyline.settings import Settings
from eddyline.tuning import SharingTuning, Tuning

QUERIES = {
    "ab": "SELECT a.v AS x, b.v AS y FROM a [RANGE 4 SECONDS], b [RANGE 4 SECONDS] WHERE a.k = b.k",
    "abc": "SELECT a.v AS x, b.v AS y, c.v AS z FROM a [RANGE 6 SECONDS], b [RANGE 2 SECONDS], c [RANGE 6 SECONDS]"
    " WHERE a.k = b.k AND b.k = c.k AND a.v < 70",
    "ac": "SELECT a.v AS x, c.v AS y FROM a [ROWS 50], c [RANGE 3 SECONDS] WHERE a.k = c.k AND c.v > 20",
}
PLANS = {"ab": "mjoin", "abc": "((a b) c)", "ac": "mjoin"}


def run(
    names: tuple[str, ...], plans: dict[str, str], epochs: int = 5, rows: int = 300, most: int = 1 << 22
) -> tuple[dict[str, pa.Table], dict]:
    rng = np.random.default_rng(4)
    with Session(Settings(tuning=Tuning(sharing=SharingTuning(most_shared_pairs=most)))) as session:
        for name in "abc":
            session.execute(f"CREATE STREAM {name} (k INT, v INT, ts TIMESTAMP) WITH (time = 'ts')")
        handles = {}
        for epoch in range(epochs):
            if epoch in (0, 2):
                # The last query comes and the first goes while the others run.
                for name in names[: len(names) - 1] if epoch == 0 and len(names) > 2 else names:
                    if name not in handles:
                        handles[name] = session.query(name, QUERIES[name], plan=plans[name], jit="off", replan="off")
            if epoch == 4 and len(names) > 2:
                session.drop(names[0])
            for stream in "abc":
                times = np.sort(rng.integers(0, 2_000_000, rows)) + epoch * 2_000_000
                session.push(stream, [(int(rng.integers(0, 40)), int(rng.integers(0, 100)), int(ts)) for ts in times])
            session.step()
        session.run(once=True)
        answers = {name: handle.table() for name, handle in handles.items()}
        return answers, {**session.stats(), "starts": {n: (h.start, h.stop) for n, h in handles.items()}}


def assert_same(found: pa.Table, right: pa.Table) -> None:
    """The same rows; the order of those with one newest row is free."""
    order = [(name, "ascending") for name in found.column_names]
    assert found.column("_ts").equals(right.column("_ts")) and found.sort_by(order).equals(right.sort_by(order))


def test_a_probe_is_made_once_for_two_groups() -> None:
    alone = {name: run((name,), PLANS) for name in ("ab", "abc")}
    both, stats = run(("ab", "abc"), PLANS)
    for name in ("ab", "abc"):
        assert_same(both[name], alone[name][0][name])
    # New rows of a and b probe each other in both queries: 3,000 rows for ab, and 1,500 of b and 70 % of those of a for
    # abc.
    apart = sum(stats["probes"] for _, stats in alone.values())
    assert 2_400 < apart - stats["probes"] < 2_700
    assert apart - stats["probes"] == stats["probes_shared"] - 3_000
    assert all(stats["probes_shared"] == 0 for _, stats in alone.values())


@pytest.mark.parametrize("most", [10, 1 << 22])
def test_three_sets_of_streams_that_come_and_go(most: int) -> None:
    shared, stats = run(("ab", "abc", "ac"), {**PLANS, "abc": "mjoin"}, most=most)
    assert (stats["probes_shared"] > 0) == (most > 10)
    # Every pair is one too many: no probe is shared.
    apart, plain = run(("ab", "abc", "ac"), {**PLANS, "abc": "mjoin"}, most=-1)
    assert plain["probes_shared"] == 0 and plain["starts"] == stats["starts"]
    for name, rows in shared.items():
        assert len(rows) > 100
        assert_same(rows, apart[name])


def test_who_has_gone_asks_no_more() -> None:
    with Session() as session:
        for name in "abc":
            session.execute(f"CREATE STREAM {name} (k INT, v INT, ts TIMESTAMP) WITH (time = 'ts')")
        for name in ("ab", "abc"):
            session.query(name, QUERIES[name], plan=PLANS[name])
        probes = session.pipeline.kinds.one(JoinKind).commons.one(SharedProbes)
        assert probes.shared()
        session.drop("ab")
        session.step()
        assert not probes.shared()


def test_a_group_that_shares_no_probes_takes_none_from_others() -> None:
    """Two groups share a probe over short windows; a third, whose orders are drawn, reaches further back."""
    queries = {
        "short": "SELECT a.v AS x, b.v AS y FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.k = b.k",
        "less": "SELECT a.v AS x, b.v AS y FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.k = b.k AND a.v < b.v",
        "far": "SELECT a.v AS x, b.v AS y FROM a [RANGE 4 SECONDS], b [RANGE 4 SECONDS] WHERE a.k = b.k AND a.v <> b.v",
    }

    def answered(*names: str) -> list[str]:
        rng = np.random.default_rng(6)
        with Session() as session:
            for name in "ab":
                session.execute(f"CREATE STREAM {name} (k INT, v INT, ts TIMESTAMP) WITH (time = 'ts')")
            for name in names:
                session.query(name, queries[name], route="lottery" if name == "far" else "fixed", jit="off")
            for name in "ab":
                times = np.sort(rng.integers(0, 5_000_000, 100))
                session.push(name, [(int(rng.integers(0, 9)), int(rng.integers(0, 50)), int(ts)) for ts in times])
            session.run(once=True)
            return sorted(map(str, session.queries["far"].table().to_pylist()))

    assert answered("short", "less", "far") == answered("far")
