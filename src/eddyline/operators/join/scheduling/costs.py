"""What serving a window costs, as measured: the sizes that MQT compares, and how much work is worth a hand-out.

Answer   `windows` are the costs of serving each window after the ones before it, added up: its strip has to be
         probed, and its results handed out.
         `again` is what it costs to take a row up that was left: a schedule that goes
         back and forth pays it each time. `need` gives the number of rows that a unit of work should take.

             seconds of a unit  =  windows x handout  +  rows x again  +  rows x (looking + handing out) of each of its
             windows

         Let work be done in n units. Of it q queries wait for half, and for half a unit more, on the average; p further
         queries, whose windows come later, wait for all. The sum q (work + n price) (1 + 1/n) / 2 + p n price is least
         where n² = work / price x q / (q + 2p).

State    Seconds per new row and window, older epochs counting half as much with each new one; the least that a hand-out
         ever took: what one costs that has hardly anything to do. Of the seconds spent looking, what goes with the rows
         taken up and what with the stored rows seen is separated by least squares over the units.
Limits   Before anything has been measured, costs are the windows' sizes, as in the paper, and an epoch is two units.
         Times are those of the clock by which responses are measured: under a virtual clock they are the same in every
         run.
Reading  docs/operators/scheduling.md
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from eddyline.state.columns import Ints

#: No row is served in less: under a virtual clock a window may cost nothing.
_LEAST_SECONDS = 1e-12
#: An epoch that took less than this part of what was expected shows that earlier ones were held up (the first time
#: kernels are loaded, or compiled): they are forgotten.
_DISTURBED = 0.5
#: How much rows taken up and rows seen have to vary against each other to be separated.
_APART = 1e-3


class WindowCosts:
    """
    >>> costs = WindowCosts([1.0, 10.0], [1, 1])
    >>> costs.windows
    [1.0, 10.0]
    >>> costs.note(0, 100, 0.1, [500], [0.0])
    >>> costs.note(1, 100, 0.4, [2000], [0.5])
    >>> costs.end_epoch(100)
    >>> [round(c, 6) for c in costs.windows], round(costs.again, 6)
    ([0.001, 0.01], 0.0)
    """

    def __init__(self, sizes: Sequence[float], queries: Sequence[int]) -> None:
        self.sizes = list(sizes)
        self.queries = list(queries)
        #: Seconds per new row and window; None: nothing has been measured.
        self.per_row: np.ndarray | None = None
        #: Seconds per row that is taken up.
        self.again = 0.0
        #: The least seconds that a hand-out took.
        self.handout = np.inf
        self._needs: npt.NDArray[np.float64] | None = None
        self._visited = np.zeros(len(sizes))
        self._handing = np.zeros(len(sizes))
        self._spent = 0.0
        #: Of (rows, seen) with themselves, and with the seconds: of earlier epochs, and of this one.
        self._squares, self._epoch_squares = np.zeros((2, 2)), np.zeros((2, 2))
        self._products, self._epoch_products = np.zeros(2), np.zeros(2)

    @property
    def windows(self) -> list[float]:
        if self.per_row is None or not self.per_row.any():
            return self.sizes
        return np.cumsum(self.per_row).tolist()

    def note(
        self, low: int, rows: int, looking: float, visited: Ints | Sequence[int], handing_out: Sequence[float]
    ) -> None:
        """A unit took `rows` rows through the windows from `low` on. `looking` is the seconds of probing, `visited` the
        rows looked at
        per window, `handing_out` the seconds of handing out per window."""
        if not rows:
            return
        high = low + len(handing_out)
        seen = np.asarray(visited, np.float64)
        self._visited[low:high] += seen
        self._handing[low:high] += handing_out
        amounts = np.array([rows, seen.sum()])
        self._epoch_squares += np.outer(amounts, amounts)
        self._epoch_products += looking * amounts
        self._spent += looking + float(np.sum(handing_out))
        self.handout = min(self.handout, *handing_out)

    def end_epoch(self, rows: int) -> None:
        """The epoch had `rows` rows."""
        if rows:
            if self.per_row is not None and self._spent < _DISTURBED * rows * (self.again + float(self.per_row.sum())):
                self.per_row = None
                self._squares[:], self._products[:] = self._epoch_squares, self._epoch_products
            else:
                self._squares += self._epoch_squares
                self._products += self._epoch_products
            self.again, per_visit = self._looking()
            now = (per_visit * self._visited + self._handing) / rows
            self.per_row = now if self.per_row is None else 0.5 * (self.per_row + now)
            self._needs = self._worth_it(self.per_row)
        self._squares *= 0.5
        self._products *= 0.5
        for of in (self._visited, self._handing, self._epoch_squares, self._epoch_products):
            of[:] = 0.0
        self._spent = 0.0

    def _looking(self) -> tuple[float, float]:
        """Seconds per row taken up and per row seen."""
        (taken, both), (_, seen) = self._squares.tolist()
        by_rows, by_seen = self._products.tolist()
        apart = taken * seen - both * both
        if apart > _APART * taken * seen:
            again, per_visit = (seen * by_rows - both * by_seen) / apart, (taken * by_seen - both * by_rows) / apart
            if per_visit < 0:
                again, per_visit = by_rows / taken, 0.0
            if again >= 0:
                return again, per_visit
        return 0.0, by_seen / seen if seen else 0.0

    def need(self, rows: int) -> npt.NDArray[np.float64]:
        """Per first window and end of a unit, how many rows it should take in an epoch of `rows` rows."""
        if self._needs is None:
            windows = len(self.sizes)
            return np.full((windows, windows + 1), rows / 2)
        return np.sqrt(rows) * self._needs

    def _worth_it(self, per_row: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Per first window and end of a unit, how many rows it should take in an epoch of one row."""
        before = np.concatenate([[0.0], np.cumsum(per_row)])
        seconds = np.maximum(before[None, :] - before[:-1, None] + self.again, _LEAST_SECONDS)
        # Beginning to probe costs about as much as another hand-out.
        prices = self.handout * np.maximum(np.arange(1, len(before) + 1)[None, :] - np.arange(len(per_row))[:, None], 0)
        served = np.concatenate([[0], np.cumsum(self.queries)])
        here, after = np.maximum(served[None, :] - served[:-1, None], 1), served[-1] - served[None, :]
        return np.sqrt(prices / seconds * (here + 2 * after) / here)
