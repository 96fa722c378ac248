"""Streams in partitions, as the dissertation has them: sizes, selectivities, drop and pass rates.

Answer   `Figure131` makes the two streams of the query of Fig. 13.1, `a.x < b.x AND b.x > 1000`, with chosen rates;
         `Clusters` makes streams whose values lie together without any herald.

             a   partition j: x >= low(j)                    b   partition i: x <= top(i); of its rows a share `select`
             has x > 1000 a pair of partitions is dropped where low(j) >= top(i)

State    None: a seed gives the same rows.
Limits   The join selectivity can be kept while 1 - drop rate is not below it. A pass rate above the join selectivity is
         not possible with the dissertation's own definitions (a pair that passes has all its pairs of rows as results):
         with `passing` the selectivity is what comes out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

#: Between the levels of partitions, and how far rows of one level lie apart.
_SCALE, _NOISE = 1_000_000, 5
#: Far above the values that the select leaves out.
_BASE = 100_000


@dataclass(frozen=True)
class Figure131:
    """50 partitions per stream; `size` is the average number of rows of one, uniform between half and one and a half of
    it."""

    size: int = 50
    drop: float = 0.0
    select: float = 0.2
    join: float = 0.1
    #: The share of pairs of partitions whose pairs of rows are all results; 0: the drop rate counts.
    passing: float = 0.0
    #: Partitions of a stream that a row may meet.
    partitions: int = 50
    #: So many times that number of partitions come one after the other, and a window holds as many rows as the
    #: partitions have on average; 1: nothing leaves, and the run ends with the last partition, as in the dissertation.
    rounds: int = 1
    #: Every so many-th herald is false for one of its rows; 0: none is.
    lies: int = 0
    #: Rows of a stream in random order: no partition has values of its own.
    is_shuffled: bool = False
    seed: int = 16

    condition = "a.x < b.x AND b.x > 1000"

    @property
    def window(self) -> str:
        # Rows of a stream are a millisecond apart.
        return "UNBOUNDED" if self.rounds == 1 else f"RANGE {self.partitions * self.size} MILLISECONDS"

    def streams(self) -> dict[str, tuple[pa.Table, list[tuple[int, str]]]]:
        """Per stream its rows, and its heralds with the number of rows before each."""
        rng = np.random.default_rng(self.seed)
        rounds = [self._round(rng) for _ in range(self.rounds)]
        found = {}
        for side, name in enumerate("ab"):
            values, sizes = (np.concatenate(parts) for parts in zip(*(made[side][:2] for made in rounds), strict=True))
            found[name] = self._stream((values, sizes, [text for made in rounds for text in made[side][2]]), side, rng)
        return found

    def _round(self, rng: np.random.Generator) -> list[tuple[np.ndarray, np.ndarray, list[str]]]:
        rate = 1 - self.passing if self.passing else self.drop
        # Levels are spread so that the share `rate` of pairs has the level of a at or above that of b.
        low = rng.permutation(self.partitions) / self.partitions
        ends = max(0.0, 1 - 2 * rate), min(1.0, 2 - 2 * rate)
        top = (
            ends[0]
            + (ends[1] - ends[0]) * (rng.permutation(self.partitions) + 0.5) / self.partitions
            - 0.5 / self.partitions
        )
        low, top = (_BASE + (level * _SCALE).astype(np.int64) for level in (low, top))
        return self._passing(rng, low, top) if self.passing else self._dropping(rng, low, top)

    def _sizes(self, rng: np.random.Generator) -> np.ndarray:
        return rng.integers(self.size // 2, self.size + self.size // 2 + 1, self.partitions)

    def _dropping(
        self, rng: np.random.Generator, low: np.ndarray, top: np.ndarray
    ) -> list[tuple[np.ndarray, np.ndarray, list[str]]]:
        sizes = self._sizes(rng), self._sizes(rng)
        # Of the rows of a, so many lie at the lower end of their partition that the join selectivity comes out.
        near = rng.random(int(sizes[0].sum())) < min(1.0, self.join / max(1 - self.drop, 1e-9))
        a = np.where(near, np.repeat(low, sizes[0]), _BASE + 2 * _SCALE) + rng.integers(0, _NOISE, len(near))
        b = self._selected(rng, np.repeat(top, sizes[1]) - rng.integers(0, _NOISE, sizes[1].sum()))
        return [(a, sizes[0], [f"x >= {least}" for least in low]), (b, sizes[1], [f"x <= {most}" for most in top])]

    def _passing(
        self, rng: np.random.Generator, high: np.ndarray, bottom: np.ndarray
    ) -> list[tuple[np.ndarray, np.ndarray, list[str]]]:
        """A pair passes where the greatest value of a is below the least value of b that is selected."""
        sizes = self._sizes(rng), self._sizes(rng)
        near = rng.random(int(sizes[0].sum())) < 0.5
        a = np.where(near, np.repeat(high, sizes[0]) - rng.integers(0, _NOISE, len(near)), _BASE - 10)
        far = np.where(rng.random(int(sizes[1].sum())) < 0.5, np.repeat(bottom, sizes[1]), _BASE + 2 * _SCALE)
        b = self._selected(rng, far)
        return [
            (a, sizes[0], [f"x <= {most}" for most in high]),
            (b, sizes[1], [f"x <= {_BASE + 2 * _SCALE}" for _ in bottom]),
        ]

    def _selected(self, rng: np.random.Generator, values: np.ndarray) -> np.ndarray:
        """Of these values the share `select`; the others are such that the select leaves them out."""
        return np.where(rng.random(len(values)) < self.select, values, rng.integers(0, 1_001, len(values)))

    def _stream(
        self, made: tuple[np.ndarray, np.ndarray, list[str]], offset: int, rng: np.random.Generator
    ) -> tuple[pa.Table, list[tuple[int, str]]]:
        values, sizes, said = made
        starts = np.concatenate(([0], np.cumsum(sizes)))
        heralds = [(int(starts[at]), f"{text} FOR {sizes[at]} ROWS") for at, text in enumerate(said)]
        if self.is_shuffled:
            rng.shuffle(values)
            heralds = []
        if self.lies:
            for at in range(0, len(sizes), self.lies):
                values[starts[at] + sizes[at] // 2] = -1 if offset == 0 else 10 * _SCALE
        return _timed(values, offset), heralds


@dataclass(frozen=True)
class Clusters:
    """Five clusters of `size` rows per stream, without heralds: of their 25 pairs three can match."""

    window = "UNBOUNDED"
    size: int = 1_000
    reach: int = 1_000
    seed: int = 16

    @property
    def condition(self) -> str:
        return f"a.x BETWEEN b.x - {self.reach} AND b.x + {self.reach}"

    def streams(self) -> dict[str, tuple[pa.Table, list[tuple[int, str]]]]:
        rng, found = np.random.default_rng(self.seed), {}
        for offset, (name, places) in enumerate((("a", (3, 0, 4, 1, 2)), ("b", (1, 7, 0, 6, 4)))):
            values = np.repeat(np.array(places) * 4_000, self.size) + rng.integers(0, 1_000, self.size * len(places))
            found[name] = (_timed(values, offset), [])
        return found


def _timed(values: np.ndarray, offset: int) -> pa.Table:
    """Rows of both streams in turn, a millisecond apart."""
    return pa.table({"x": values, "ts": pa.array(np.arange(len(values)) * 1_000 + offset, pa.timestamp("us"))})


def with_heralds(rows: pa.Table, heralds: list[tuple[int, str]]) -> pa.Table:
    """The same rows with a column `note`, and each herald before the row that it begins at, as a file would have
    them."""
    places = np.array([place for place, _ in heralds], np.int64)
    note = pa.nulls(len(rows), pa.string())
    told = {"x": pa.nulls(len(heralds), pa.int64()), "note": pa.array([text for _, text in heralds], pa.string())}
    said = pa.table({**told, "ts": rows.column("ts").take(pa.array(np.minimum(places, len(rows) - 1)))})
    whole = pa.concat_tables([pa.table({"x": rows.column("x"), "note": note, "ts": rows.column("ts")}), said])
    order = np.lexsort((np.repeat([1, 0], [len(rows), len(heralds)]), np.concatenate((np.arange(len(rows)), places))))
    return whole.take(pa.array(order)).combine_chunks()
