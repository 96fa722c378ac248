"""Results of shared joins query by query, against looking at combinations bit by bit and at queries one by one."""

from __future__ import annotations

import numpy as np
import pytest

from eddyline import Session
from eddyline.kernels.bitsets import keep_within
from eddyline.operators.join.combination import Combinations
from eddyline.operators.join.probing.expansion import Expansion, Roll
from eddyline.settings import Settings
from eddyline.tuning import SharingTuning, Tuning


def made(rows: int, width: int | None, seed: int) -> Combinations:
    rng = np.random.default_rng(seed)
    lineage = (
        None
        if width is None
        else rng.integers(0, 2**63, (rows, width), dtype=np.uint64)
        & rng.integers(0, 2**63, (rows, width), dtype=np.uint64)
    )
    return Combinations(
        {0: np.arange(rows), 1: np.arange(rows) * 7},
        np.arange(rows) << 6,
        np.sort(rng.integers(0, 100, rows)),
        None,
        lineage,
    )


def test_keep_within() -> None:
    rng = np.random.default_rng(3)
    lineage = rng.integers(0, 2**63, (100, 2), dtype=np.uint64)
    ages = rng.integers(0, 50, 100)
    sizes = np.array([5, 10, 30])
    table = np.array([[7, 7], [3, 3], [1, 0], [0, 0]], np.uint64)
    expected = lineage & table[np.searchsorted(sizes, ages)]
    some = keep_within(lineage, ages, sizes, table)
    assert (lineage == expected).all() and (some == expected.any(axis=1)).all()


@pytest.mark.parametrize("slots", [(0, 3, 64, 70), (70, 3), (5,)])
@pytest.mark.parametrize("width", [None, 2])
def test_shares_of_combinations(slots: tuple[int, ...], width: int | None) -> None:
    rows = made(300, width, 5)
    stops = [None, 40, None, 90][: len(slots)]
    into = Expansion(Roll.of(slots, 2), (0, 1), room=4096)
    for begin in (0, 100, 200):
        into.add(rows.take(np.arange(begin, begin + 100)))
    shares = into.shares(0, 300).until(stops)
    assert shares.rows.lineage is None and len(shares.edges) == len(slots) + 1
    for place, (slot, stop) in enumerate(zip(slots, stops, strict=True)):
        has = (
            np.ones(300, np.bool_)
            if rows.lineage is None
            else (rows.lineage[:, slot // 64] >> np.uint64(slot % 64)) & np.uint64(1) != 0
        )
        has = has & (rows.clock <= (1000 if stop is None else stop))
        part = shares.part(place, place + 1)
        assert part.ids[1].tolist() == rows.ids[1][has].tolist()
        assert part.stamp.tolist() == rows.stamp[has].tolist()
    assert into.made == 0, "the next step begins with nothing"


def test_shares_make_room_as_they_come() -> None:
    rows = made(300, 1, 5)
    assert rows.lineage is not None
    into = Expansion(Roll.of(tuple(range(64)), 1), (0, 1), room=1)
    into.add(rows)
    assert into.made == int(np.bitwise_count(rows.lineage).sum())


WINDOWS = ("RANGE 1 SECOND", "RANGE 3 SECONDS", "ROWS 7", "ROWS 20", "RANGE 9 SECONDS", "UNBOUNDED")


@pytest.mark.parametrize("windows", [WINDOWS[:2], WINDOWS[2:4], WINDOWS])
@pytest.mark.parametrize("room", [1, 1 << 16])
def test_probing_for_many_queries_is_probing_for_each(windows: tuple[str, ...], room: int) -> None:
    """Last probes that look at lineage and windows as they go, against the same queries one by one in groups of their
    own."""
    rng = np.random.default_rng(11)
    with Session(Settings(tuning=Tuning(sharing=SharingTuning(least_room=room)))) as session:
        for name in "abc":
            session.execute(f"CREATE STREAM {name} (k INT, v INT, ts TIMESTAMP) WITH (time = 'ts')")
        handles = {}
        for number in range(40):
            x, y, z = rng.choice(windows, 3)
            low = int(rng.integers(0, 80))
            select = f"SELECT a.v AS v, b.v AS w, a.k AS k FROM a [{x}] a, b [{y}] b WHERE a.k = b.k AND a.v >= {low} AND a.v < {low + 30}"
            if number % 3 == 0:
                select = f"SELECT a.v AS v, c.v AS w FROM a [{x}] a, b [{y}] b, c [{z}] c WHERE a.k = b.k AND b.k = c.k AND c.v < {low}"
            for share in ("on", "off"):
                handles[number, share] = session.query(f"q{number}{share}", select, share=share, plan="mjoin")
        for epoch in range(4):
            for name in "abc":
                times = np.sort(rng.integers(0, 5_000_000, 60)) + epoch * 5_000_000
                session.push(name, [(int(rng.integers(0, 6)), int(rng.integers(0, 100)), int(ts)) for ts in times])
            session.step()
        session.run(once=True)
        some = 0
        for number in range(40):
            shared, alone = (handles[number, share].table().to_pylist() for share in ("on", "off"))
            assert [row["_ts"] for row in shared] == [row["_ts"] for row in alone]
            assert sorted(map(str, shared)) == sorted(map(str, alone))
            some += len(alone)
        assert some > 1000


def test_combinations_probe_in_any_order() -> None:
    """What another node made does not come in the order of newest rows; the last probe for many queries must not count
    on it."""
    rng = np.random.default_rng(3)
    with Session() as session:
        for name in "ab":
            session.execute(f"CREATE STREAM {name} (k INT, j INT, v INT, ts TIMESTAMP) WITH (time = 'ts')")
        text = (
            "SELECT x.v AS x, y.v AS y, z.v AS z FROM a [RANGE {0} SECONDS] x, b [UNBOUNDED] y, a [RANGE {0} SECONDS] z"
        )
        text += " WHERE x.k = y.k AND y.j = z.k AND x.v < {1}"
        handles = {
            (number, share): session.query(
                f"q{number}{share}", text.format(number + 1, 9 * number), share=share, plan="(z (y x))"
            )
            for number in range(9)
            for share in ("on", "off")
        }
        for epoch in range(3):
            for name in "ab":
                times = np.sort(rng.integers(0, 4_000_000, 40)) + epoch * 4_000_000
                keys = rng.integers(0, 4, (40, 2)).tolist()
                session.push(
                    name, [(k, j, int(rng.integers(0, 100)), int(ts)) for (k, j), ts in zip(keys, times, strict=True)]
                )
            session.step()
        session.run(once=True)
        for number in range(9):
            shared, alone = (handles[number, share].table().to_pylist() for share in ("on", "off"))
            assert sorted(map(str, shared)) == sorted(map(str, alone)), number
