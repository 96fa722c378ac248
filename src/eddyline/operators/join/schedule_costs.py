"""What serving a window costs, as measured: the sizes that MQT compares, and how much work is worth a hand-out.

Answer   `windows` are the costs of serving each window after the ones before it, added up: its strip has to be looked at, and its
         results handed out. `need` says how many rows a unit of work has to take to be worth what it costs just to begin it
         and to hand out, whatever its size.

             seconds of a unit  =  price per window  +  rows x (looking + handing out)

State    Seconds per new row and window, older epochs counting half as much with each new one; the least that a unit ever took for
         a window: what one costs that has hardly anything to do.
Limits   Before anything has been measured, costs are the windows' sizes, as in the paper, and an epoch is two units. Times are those of
         the clock by which responses are measured: under a virtual clock they are the same in every run.
Reading  docs/operators/scheduling.md
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from eddyline.state.columns import Ints

#: What units cost just to begin may be one part in so many of all work.
_PRICE_SHARE = 10
#: However dear they are, an epoch has about so many hand-outs at least: results that wait for a whole epoch are no schedule.
_LEAST_HANDOUTS = 64


class WindowCosts:
    """
    >>> costs = WindowCosts([1.0, 10.0])
    >>> costs.windows
    [1.0, 10.0]
    >>> costs.note(0, 100, 0.1, [5], [0.0])
    >>> costs.note(1, 100, 0.4, [5], [0.5])
    >>> costs.settle(100)
    >>> [round(c, 6) for c in costs.windows]
    [0.001, 0.01]
    """

    def __init__(self, sizes: Sequence[float]) -> None:
        self.sizes = list(sizes)
        #: Seconds per new row and window; None: nothing has been measured.
        self.per_row: np.ndarray | None = None
        #: Seconds that a unit costs per window with hardly anything to do.
        self.price = np.full(len(sizes), np.inf)
        self._spent = np.zeros(len(sizes))

    @property
    def windows(self) -> list[float]:
        if self.per_row is None or not self.per_row.any():
            return self.sizes
        found: list[float] = np.cumsum(self.per_row).tolist()
        return found

    def note(self, low: int, rows: int, looking: float, visited: Ints | Sequence[int], handing_out: Sequence[float]) -> None:
        """A unit took so many rows through the windows from `low` on: seconds of looking, in which so many rows were looked
        at per window, and of handing out per window."""
        shares = np.asarray(visited, np.float64) + 1.0
        seconds = looking * shares / shares.sum() + np.asarray(handing_out)
        self._spent[low : low + len(seconds)] += seconds
        if rows:
            part = self.price[low : low + len(seconds)]
            np.minimum(part, seconds, out=part)

    def settle(self, rows: int) -> None:
        """An epoch of so many rows is over."""
        if rows:
            now = self._spent / rows
            self.per_row = now if self.per_row is None else 0.5 * (self.per_row + now)
        self._spent[:] = 0.0

    def need(self, rows: int) -> npt.NDArray[np.float64]:
        """Per first window and end of a unit, how many rows it has to take to be worth its price, in an epoch of so many rows."""
        windows = len(self.sizes)
        if self.per_row is None:
            return np.full((windows, windows + 1), rows / 2)
        before = np.concatenate([[0.0], np.cumsum(self.per_row)])
        per_row = before[None, :] - before[:-1, None]
        long = np.arange(windows + 1)[None, :] - np.arange(windows)[:, None]
        price = np.concatenate([[0.0], np.cumsum(self.price)])
        prices = price[None, :] - price[:-1, None]
        seconds = np.minimum(_PRICE_SHARE * prices, rows * before[-1] * long / _LEAST_HANDOUTS)
        found: npt.NDArray[np.float64] = np.where(seconds > 0, seconds / np.maximum(per_row, np.finfo(np.float64).tiny), 0.0)
        return found
