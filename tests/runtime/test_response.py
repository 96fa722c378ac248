"""Response times: from which arrival to which release each result is measured."""

from __future__ import annotations

import numpy as np
import pytest

from eddyline import Session
from eddyline.operators.join.combination import POSITION_BITS, Combinations
from eddyline.runtime.figures.response import Responses, SlotTimes, Times, VirtualClock
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
    responses.released(
        50, 5, [("a", np.array([50, 51, 53, 54]), np.array([0, 1, 2, 3])), ("b", np.array([52]), np.array([0]))]
    )
    clock.advance(1)
    responses.note(("q",), results([50, 50, 52, 54]))
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
    responses.note(("q",), results(ranks.tolist()))
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
        responses.note(("q",), results([0]))
    found = responses.summary(["q"])["q"]
    assert len(responses.queries["q"].pairs) < 16_385
    assert found["p95"] == pytest.approx(19.0, rel=1e-2)
    assert found["mean"] == pytest.approx(10.0005)


def test_a_row_that_waits_for_the_frontier_waits_since_it_came() -> None:
    """b's row comes in the second epoch and lets a's row of the first be answered in the third."""
    clock = MovedClock(0.0)
    with Session(clock=clock) as session:
        session.execute(
            "CREATE STREAM a (k INT, ts TIMESTAMP) WITH (time='ts'); CREATE STREAM b (k INT, ts TIMESTAMP) WITH (time='ts')"
        )
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


def test_many_queries_are_added_up_now_and_then_and_nothing_is_lost() -> None:
    """Against adding up each query at once, with rows of two arrivals, queries without results, and a query that is
    dropped."""
    rng = np.random.default_rng(5)
    clock = MovedClock(0.0)
    together, apart = Responses(clock), Responses(clock)
    names = [f"q{i}" for i in range(5)]
    for responses in (together, apart):
        responses.arrived("a", 30)
    clock.advance(3)
    for responses in (together, apart):
        responses.begin()
        responses.arrived("a", 100)
        responses.released(
            0, 100, [("a", np.arange(100), rng.permutation(100) if responses is together else np.arange(100))]
        )
    apart._changes, apart._instant_of, apart._instants = together._changes, together._instant_of, together._instants
    for _ in range(150):
        clock.advance(0.25)
        parts = [np.sort(rng.integers(0, 100, size)).tolist() for size in rng.integers(0, 6, len(names) - 1)] + [[]]
        together.note(names, results([rank for part in parts for rank in part]), np.cumsum([0, *map(len, parts)]))
        for name, part in zip(names, parts, strict=True):
            if part:
                apart.note((name,), results(part))
    for responses in (together, apart):
        responses.drop("q1")
    found, expected = together.summary(names), apart.summary(names)
    assert found["q1"]["mean"] is None and found["q4"]["mean"] is None
    for name in names:
        assert found[name] == pytest.approx(expected[name])


def test_filters_have_response_times_of_rows_of_several_arrivals() -> None:
    """Rows that wait for the frontier since the first epoch are older when they are released; each filter has those of
    its own results."""
    clock = MovedClock(0.0)
    with Session(clock=clock) as session:
        session.execute("CREATE STREAM a (k INT, ts TIMESTAMP) WITH (time='ts', lateness='10 seconds')")
        session.query("small", "SELECT k FROM a WHERE k < 3")
        session.query("all_rows", "SELECT k FROM a")
        session.query("none", "SELECT k FROM a WHERE k > 100")
        session.push("a", [(k, k * 1_000_000) for k in range(4)])
        session.step()
        assert session.stats()["response"]["all_rows"] == {"mean": None, "p95": None, "max": None}
        clock.advance(4)
        session.push("a", [(4, 4_000_000), (5, 30_000_000)])
        session.step()
        found = session.stats()["response"]
    assert found["small"] == {"mean": 4.0, "p95": 4.0, "max": 4.0}
    assert found["all_rows"] == {"mean": pytest.approx(4.0 * 4 / 5), "p95": 4.0, "max": 4.0}
    assert found["none"]["mean"] is None


def test_times_of_slots_are_about_those_of_single_queries() -> None:
    """Each figure is at most a fifth off; a slot that another query gets begins anew."""
    rng = np.random.default_rng(8)
    slots = {"p": 0, "q": 3, "silent": 1}
    many, single = SlotTimes(slots), {name: Times() for name in ("p", "q")}
    for response in rng.exponential(0.01, 300).tolist():
        counts = rng.integers(0, 5, 2)
        many.note(response, np.array([0, 3]), counts)
        for times, count in zip(single.values(), counts, strict=True):
            times.add(np.array([response]), np.array([count]))
    found = many.summary()
    assert set(found) == {"p", "q"}
    for name, times in single.items():
        for figure, expected in times.summary().items():
            assert found[name][figure] == pytest.approx(expected, rel=0.2)
    many.clear(3)
    assert set(many.summary()) == {"p"}
    drained = many.drained()
    assert drained["p"][0][1] == single["p"].count and set(drained) == {"p"}
    assert not many.summary()
