"""Random columns with known rates, skews and disorder.

Answer   Event times at a given rate (even, or in bursts), keys over a domain (uniform, or Zipf), and the order in which
         rows arrive.
State    None: the seed of the shape decides everything.
Limits   Whole columns in memory: up to some ten million rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eddyline.errors import UserError

#: Microseconds.
SECOND = 1_000_000
#: 2024-01-01 00:00:00, in microseconds from 1970.
START = 1_704_067_200 * SECOND


@dataclass(frozen=True, slots=True)
class GeneratorShape:
    """The options that all generators have."""

    #: Rows per second of event time (of each stream, where there are several), and for how long.
    rate: float = 100.0
    seconds: float = 600.0
    seed: int = 0
    #: Exponent of the Zipf distribution of keys; 0: uniform.
    skew: float = 0.0
    #: Rows come up to this many seconds behind the newest one.
    disorder: float = 0.0
    #: This share of the rows comes later than that.
    late: float = 0.0
    #: Shape of the Pareto distribution of the gaps between rows, above 1; the smaller, the burstier. None: even gaps.
    burst: float | None = None
    #: Files per stream.
    files: int = 1

    def __post_init__(self) -> None:
        checks = [
            (self.rate > 0, "rate", "above 0"),
            (self.seconds > 0, "seconds", "above 0"),
            (self.skew >= 0, "skew", "0 or more"),
            (self.disorder >= 0, "disorder", "0 or more seconds"),
            (0 <= self.late < 1, "late", "a share, from 0 to below 1"),
            (self.burst is None or self.burst > 1, "burst", "above 1"),
            (self.files >= 1, "files", "1 or more"),
        ]
        for holds, name, values in checks:
            if not holds:
                raise UserError(f"{name} does not take {getattr(self, name)}", hint=values)

    @property
    def count(self) -> int:
        return max(1, round(self.rate * self.seconds))


def rng_for(seed: int, name: str) -> np.random.Generator:
    """A random generator for one group of columns: a further group does not change the values of the others."""
    return np.random.default_rng([seed, *name.encode()])


def event_times(rng: np.random.Generator, shape: GeneratorShape, offset: float = 0.0) -> np.ndarray:
    """Ascending event times in microseconds; the first is at the start plus `offset` gaps."""
    if shape.burst is None:
        return START + np.round((np.arange(shape.count) + offset) * (SECOND / shape.rate)).astype(np.int64)
    gaps = rng.pareto(shape.burst, shape.count)
    place = np.concatenate(([0.0], np.cumsum(gaps)[:-1]))
    return START + np.round((place / gaps.sum() * shape.seconds + offset / shape.rate) * SECOND).astype(np.int64)


def keys(rng: np.random.Generator, count: int, domain: int, skew: float = 0.0) -> np.ndarray:
    """Integers from 1 to `domain`; with skew, 1 is the most frequent."""
    if domain < 1:
        raise UserError(f"a domain of {domain} values is empty", hint="1 or more")
    if skew == 0:
        return rng.integers(1, domain + 1, count)
    weights = np.arange(1, domain + 1, dtype=np.float64) ** -skew
    edges = np.cumsum(weights)
    return np.searchsorted(edges, rng.random(count) * edges[-1], side="right").clip(0, domain - 1) + 1


def arrival_order(rng: np.random.Generator, times: np.ndarray, shape: GeneratorShape) -> np.ndarray:
    """The order in which rows with ascending times arrive.

    A row is delayed by at most `disorder`, so it is never more than that behind the newest row. A late row is delayed by
    more than twice that and ten gaps: a row that is newer by more than `disorder` always arrives before it.
    """
    if shape.disorder == 0 and shape.late == 0:
        return np.arange(len(times))
    slack = shape.disorder * SECOND
    arrival = times + rng.random(len(times)) * slack
    if shape.late:
        held = 2 * slack + 10 * SECOND / shape.rate + SECOND
        late = (rng.random(len(times)) < shape.late) & (times < times[-1] - 2 * held)
        arrival = np.where(late, times + held * (1 + rng.random(len(times)) / 2), arrival)
    return np.argsort(arrival, kind="stable")


def texts(values: np.ndarray, head: str) -> np.ndarray:
    """Names from numbers, such as `head7` from 7; each distinct value is converted once."""
    distinct, codes = np.unique(values, return_inverse=True)
    return np.array([f"{head}{v}" for v in distinct.tolist()], dtype=object)[codes]
