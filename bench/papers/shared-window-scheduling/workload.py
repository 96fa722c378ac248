"""The streams and windows of the paper: Table 1, exponential and Pareto arrivals, selectivity 0.002.

Answer   `arrivals` gives two streams in total order, loaded back to the largest window, then a number of new rows.
Limits   Seeded; the same numbers everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

TABLE_1: dict[str, tuple[float, ...]] = {
    "uniform": (1, 100, 200, 300, 400, 500, 600),
    "mostly-small": (1, 5, 15, 30, 60, 300, 600),
    "mostly-large": (1, 60, 300, 420, 510, 570, 600),
    "small-large": (1, 5, 15, 300, 510, 570, 600),
}
KEYS = 500
LARGEST = 600.0


@dataclass(frozen=True)
class Rows:
    """Rows of both streams in total order; those before `first` are loaded before the clock starts."""

    side: np.ndarray
    ts: np.ndarray
    key: np.ndarray
    first: int


def stream(rng: np.random.Generator, rate: float, seconds: float, burst: float = 1.0) -> np.ndarray:
    """Arrival times: bursts at exponential distances, of Pareto size with this mean, `rate` rows per second over
    all."""
    bursts = int(rate / burst * seconds * 1.5) + 100
    times = np.cumsum(rng.exponential(burst / rate, bursts))
    if burst == 1.0:
        return times[times < seconds]
    shape = burst / (burst - 1.0)
    size = (1.0 - rng.random(bursts)) ** (-1.0 / shape)
    # Rounded at random, so that the mean stays what it is.
    whole = np.floor(size + rng.random(bursts)).astype(np.int64)
    within = times < seconds
    return np.repeat(times[within], whole[within])


def arrivals(seed: int, rate: float = 100.0, burst: float = 1.0, rows: int = 100_000) -> Rows:
    """Two streams at `rate` each: 600 seconds of history, then `rows` new rows of both together."""
    rng = np.random.default_rng(seed)
    seconds = LARGEST + rows / (2 * rate) * 1.6 + 60
    times = [stream(rng, rate, seconds, burst) for _ in range(2)]
    ts = np.concatenate(times)
    side = np.repeat([0, 1], [len(t) for t in times])
    order = np.argsort(ts, kind="stable")
    ts, side = ts[order], side[order]
    first = int(np.searchsorted(ts, LARGEST))
    # A burst of heavy tail may bring more rows than planned for: the run is over when the new rows are used up.
    stop = min(first + rows, len(ts))
    key = rng.integers(0, KEYS, len(ts))
    return Rows(side[:stop].astype(np.int64), ts[:stop] - LARGEST, key[:stop], first)
