"""The schedulers against the paper's figures and a plain twin of the queues."""

from __future__ import annotations

import numpy as np
import pytest

from eddyline.errors import SettingProblem
from eddyline.operators.join.scheduling.costs import WindowCosts
from eddyline.operators.join.scheduling.queues import ScheduledWork, SchedulingQueues
from eddyline.operators.join.scheduling.schedulers import scheduler
from eddyline.operators.join.scheduling.throughput import max_throughput
from tests.oracle.kernels_schedule import drained

NAMES = ("lwo", "swf", "mqt")


def test_the_throughput_matrix_of_figure_4() -> None:
    found = max_throughput([2, 3, 6], [1, 1, 1])
    assert found.tolist() == [[0, 1 / 2, 2 / 3, 2 / 3], [0, 0, 1, 1], [0, 0, 0, 1 / 3]]


def test_a_new_query_changes_the_matrix() -> None:
    assert max_throughput([2, 6], [1, 9])[0].tolist() == [0, 1 / 2, 10 / 6]


@pytest.mark.parametrize(
    ("name", "units"),
    [
        ("lwo", [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]),
        ("swf", [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)]),
        ("mqt", [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (1, 2)]),
    ],
)
def test_the_order_of_work_of_figures_2_to_4(name: str, units: list[tuple[int, int]]) -> None:
    assert list(drained(scheduler(name, [2, 3, 6], [1, 1, 1]), 2)) == units


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("need", [0.0, 25.0, 1e9])
def test_units_are_the_same_work_in_larger_pieces(name: str, need: float) -> None:
    chosen = scheduler(name, [1, 5, 15, 300, 510, 570, 600], [1] * 7)
    bounds = np.arange(0, 90, 10)
    order = list(drained(chosen, 8))
    at = 0
    for unit in SchedulingQueues(chosen, 8).units(bounds, np.full((7, 8), need)):
        here = order[at : at + (unit.stop - unit.first) * (unit.high - unit.low)]
        assert here == [
            (batch, level) for batch in range(unit.first, unit.stop) for level in range(unit.low, unit.high)
        ]
        assert unit.stop == unit.first + 1 or 1.5 * need > 10 * (unit.stop - unit.first - 1), (
            "no more batches than are needed"
        )
        at += len(here)
    assert at == len(order)


def test_a_small_rest_comes_along() -> None:
    queues = SchedulingQueues(scheduler("lwo", [1.0], [1]), 7)
    assert list(queues.units(np.arange(0, 80, 10), np.full((1, 2), 30.0))) == [
        ScheduledWork(0, 3, 0, 1),
        ScheduledWork(3, 7, 0, 1),
    ]


def test_a_dear_stretch_is_served_after_the_cheap_ones_once_it_has_been_measured() -> None:
    """By size the third window would be served with the second; handing out its results costs so much that it waits."""
    costs = WindowCosts([10.0, 20.0, 21.0], [1, 1, 1])
    assert list(
        SchedulingQueues(scheduler("mqt", costs.windows, [1, 1, 1]), 1).units(np.array([0, 9]), costs.need(9))
    ) == [ScheduledWork(0, 1, 0, 3)]
    for low, seconds in enumerate([0.1, 0.1, 5.0]):
        costs.note(low, 100, 0.0, [1], [seconds])
    costs.end_epoch(100)
    units = list(
        SchedulingQueues(scheduler("mqt", costs.windows, [1, 1, 1]), 2).units(np.array([0, 50, 100]), costs.need(100))
    )
    assert units == [ScheduledWork(0, 2, 0, 2), ScheduledWork(0, 1, 2, 3), ScheduledWork(1, 2, 2, 3)]


def test_older_measurements_count_half() -> None:
    costs = WindowCosts([1.0, 2.0], [1, 1])
    for seconds in (4.0, 2.0):
        costs.note(0, 10, 0.0, [1, 1], [seconds / 2, seconds / 2])
        costs.end_epoch(10)
    assert costs.per_row is not None
    assert costs.per_row.tolist() == pytest.approx([0.15, 0.15])
    assert costs.handout == pytest.approx(1.0)


@pytest.mark.parametrize("queries", [[1, 1, 1], [1, 5, 2], [3, 1, 9]])
def test_units_are_as_large_as_makes_the_mean_wait_least(queries: list[int]) -> None:
    """Against trying every number of units of the stretch from window 0 to window 2, those of the third window waiting
    behind it."""
    costs = WindowCosts([1.0, 2.0, 3.0], queries)
    for low in range(3):
        costs.note(low, 1000, 0.0, [10], [0.5])
    costs.handout = 0.02
    costs.end_epoch(1000)
    here, after = queries[0] + queries[1], queries[2]
    work, price = 2 * 0.5, 3 * 0.02

    def waits(units: int) -> float:
        return here * (work + units * price) * (1 + 1 / units) / 2 + after * units * price

    best = min(range(1, 50), key=waits)
    assert 1000 / costs.need(1000)[0, 2] == pytest.approx(best, abs=0.5)


def test_an_epoch_that_was_held_up_is_forgotten() -> None:
    costs = WindowCosts([1.0, 2.0], [1, 1])
    for held_up in (2.0, 0.0):
        for low, seen in ((0, 20), (1, 400)):
            costs.note(low, 100, 0.001 * seen + held_up * (low == 0), [seen], [0.1])
        costs.end_epoch(100)
    assert costs.again == pytest.approx(0.0)
    assert costs.windows == pytest.approx(np.cumsum([0.0012, 0.005]).tolist())


def test_taking_rows_up_is_told_apart_from_what_they_see() -> None:
    costs = WindowCosts([1.0, 2.0, 3.0], [1, 1, 1])
    for low, rows, seen in ((0, 100, 20), (0, 50, 90), (1, 100, 400), (2, 30, 1000)):
        costs.note(low, rows, 0.02 * rows + 0.003 * seen, [seen], [0.0])
    costs.end_epoch(100)
    assert costs.again == pytest.approx(0.02)
    assert costs.windows == pytest.approx(
        np.cumsum([0.003 * 110 / 100, 0.003 * 400 / 100, 0.003 * 1000 / 100]).tolist()
    )


def test_where_they_cannot_be_told_apart_all_goes_with_what_is_seen() -> None:
    costs = WindowCosts([1.0, 2.0], [1, 1])
    for rows in (10, 20, 40):
        costs.note(0, rows, 0.5 * rows, [2 * rows, 3 * rows], [0.0, 0.0])
    costs.end_epoch(70)
    assert costs.again == 0.0
    assert costs.windows == pytest.approx([0.2, 0.5])


def test_a_row_in_hand_goes_on_where_taking_it_up_again_is_dear() -> None:
    """Three windows of one, two and two seconds. A row that has finished the first would be left for the next one;
    where taking a row
    up costs two seconds it is taken through all three at once."""
    bounds, need = np.array([0, 1, 2]), np.zeros((3, 4))
    cheap = SchedulingQueues(scheduler("mqt", [1.0, 3.0, 5.0], [1, 1, 1]), 2)
    dear = SchedulingQueues(scheduler("mqt", [1.0, 3.0, 5.0], [1, 1, 1], 2.0), 2)
    assert list(cheap.units(bounds, need))[:2] == [ScheduledWork(0, 1, 0, 1), ScheduledWork(1, 2, 0, 1)]
    assert list(dear.units(bounds, need)) == [ScheduledWork(0, 1, 0, 3), ScheduledWork(1, 2, 0, 3)]


def test_an_unknown_scheduler_is_refused() -> None:
    with pytest.raises(SettingProblem, match="no scheduler 'fifo'"):
        scheduler("fifo", [1.0], [1])
