"""Response times: who waited since when, and for how long."""

from __future__ import annotations

import numpy as np
import pytest

from eddyline import Session
from eddyline.operators.join.combination import POSITION_BITS, Combinations
from eddyline.runtime.response import Responses, VirtualClock
from eddyline.testing.clocks import MovedClock


def results(ranks: list[int]) -> Combinations:
    stamps = np.array(ranks, np.int64) << POSITION_BITS
    return Combinations({}, stamps, stamps, None, None)


def test_each_result_counts_from_the_arrival_of_its_newest_row() -> None:
    clock = MovedClock(100.0)
    responses = Responses(clock)
    responses.arrived("a", 2)
    clock.advance(10)
    responses.begin()
    responses.arrived("a", 4)
    responses.arrived("b", 1)
    responses.released(50, 5, [("a", np.array([50, 51, 53, 54]), np.array([0, 1, 2, 3])), ("b", np.array([52]), np.array([0]))])
    clock.advance(1)
    responses.heard("q", results([50, 50, 52, 54]))
    assert responses.summary(["q", "silent"]) == {
        "q": {"mean": pytest.approx((11 + 11 + 1 + 1) / 4), "p95": 11.0, "max": 11.0},
        "silent": {"mean": None, "p95": None, "max": None},
    }


def test_many_changes_of_arrival_count_the_same() -> None:
    rng = np.random.default_rng(3)
    clock = MovedClock(0.0)
    responses = Responses(clock)
    for epoch in range(1, 6):
        responses.begin()
        responses.arrived("a", epoch * 200)
        clock.advance(1)
    number = rng.permutation(1000)
    responses.released(7, 1000, [("a", np.arange(7, 1007), number)])
    ranks = np.sort(rng.integers(7, 1007, 5000))
    responses.heard("q", results(ranks.tolist()))
    expected = 5.0 - number[ranks - 7] // 200
    found = responses.summary(["q"])["q"]
    assert found["mean"] == pytest.approx(expected.mean())
    assert found["max"] == expected.max()
    assert found["p95"] == np.sort(expected)[int(np.ceil(0.95 * 5000)) - 1]


def test_pairs_are_put_together_and_p95_stays_close() -> None:
    clock = MovedClock(0.0)
    responses = Responses(clock)
    responses.arrived("a", 1)
    responses.released(0, 1, [("a", np.array([0]), np.array([0]))])
    for _ in range(20_000):
        clock.advance(0.001)
        responses.heard("q", results([0]))
    found = responses.summary(["q"])["q"]
    assert len(responses.queries["q"].pairs) < 16_385
    assert found["p95"] == pytest.approx(19.0, rel=1e-2)
    assert found["mean"] == pytest.approx(10.0005)


def test_a_row_that_waits_for_the_frontier_waits_since_it_came() -> None:
    """b's row comes in the second epoch and lets a's row of the first be answered in the third."""
    clock = MovedClock(0.0)
    with Session(clock=clock) as session:
        session.execute("CREATE STREAM a (k INT, ts TIMESTAMP) WITH (time='ts'); CREATE STREAM b (k INT, ts TIMESTAMP) WITH (time='ts')")
        query = session.query("q", "SELECT a.k AS k FROM a [RANGE 1 MINUTE], b [RANGE 1 MINUTE] WHERE a.k = b.k")
        session.push("a", [(1, 2_000_000)])
        session.step()
        clock.advance(5)
        session.push("b", [(1, 1_000_000), (2, 3_000_000)])
        session.step()
        clock.advance(2)
        session.push("a", [(3, 9_000_000)])
        session.step()
        assert len(query.table()) == 1
        assert session.stats()["response"]["q"] == {"mean": 7.0, "p95": 7.0, "max": 7.0}


def test_only_work_moves_a_virtual_clock() -> None:
    clock = VirtualClock(per_probe=1.0, per_visit=0.5, per_result=0.25)
    clock.charge(probes=2, visited=4, made=4)
    assert clock.now() == 5.0
    clock.sleep(1.0)
    assert clock.now() == 6.0
