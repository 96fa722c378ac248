"""Time buckets: when the groups of EMIT ON CLOSE are complete.

Answer   `Ends.due` gives, per value of a grouping expression, the first instant from which on no combination has that
         value: the microsecond after the last time with it. Where several streams are joined, it is later by the RANGE
         of the reference. A group is due at the earliest end of its buckets. `Buckets.enter` adds new groups, `closed`
         removes and returns the groups that are due at the frontier, in order.
State    A queue of open groups; a cache of the ends of buckets.
Limits   The end of a bucket is computed for units of fixed length, months and years. For every other monotone
         expression it is found by bisection over all times, for all values at once: 64 evaluations. A group whose
         bucket is NULL stays open.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from eddyline.kernels.groups import group as kernels
from eddyline.model.datatypes import TIMESTAMP
from eddyline.model.expressions.expression import Call, ColumnRef, Expression, Literal
from eddyline.model.expressions.monotone import EARLY, trend_of
from eddyline.operators.aggregate.accumulators.encoding import ValueEncoder, grown
from eddyline.operators.aggregate.expiry import ExpiryQueue
from eddyline.operators.expressions.evaluate import Compiled, Issues, compile_expression
from eddyline.operators.expressions.functions_time import DAY, LOWEST, MICROSECONDS, months_of
from eddyline.state.columns import Ints

#: Later than every bucket that closes.
FOREVER = 1 << 62
_LAST = (1 << 63) - 1
_FIXED = {**MICROSECONDS, "week": 7 * DAY}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}


@dataclass(frozen=True, slots=True)
class Bucket:
    """A grouping expression that is a monotone function of a stream's event time."""

    #: Its place among the grouping expressions.
    at: int
    expression: Expression
    #: The RANGE of its reference where several streams are joined: for so long a row can meet rows of other streams.
    delay: int = 0
    #: Of a group window: how long after its value the bucket ends; None: the end is computed.
    length: int | None = None


def end_of(begin: Ints, unit: str) -> Ints:
    """The first microsecond after buckets of `date_trunc` that begin so.

    >>> int(end_of(np.array([0]), "month")[0]) // DAY
    31
    """
    if unit in _FIXED:
        return begin + _FIXED[unit]
    months = months_of(begin) + _MONTHS[unit] - 1970 * 12
    end: Ints = months.view("M8[M]").astype("M8[us]").view(np.int64)
    return end


class Ends:
    """When the buckets of one grouping expression are over."""

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        e = bucket.expression
        trend = trend_of(e)
        assert trend is not None, "the binder lets only monotone expressions through"
        self.column, self.rising = trend.column, trend.rising
        #: The unit, where it is date_trunc of the event time itself.
        self.unit: str | None = None
        if isinstance(e, Call) and e.function == "date_trunc" and isinstance(e.args[1], ColumnRef):
            unit = e.args[0].value if isinstance(e.args[0], Literal) else None
            self.unit = str(unit) if unit in _FIXED or unit in _MONTHS else None
        self._compiled: Compiled | None = None if isinstance(e, ColumnRef) else compile_expression(e)
        self._encoder = ValueEncoder()
        #: Cache: values, ascending, and the ends of their buckets.
        self.known: Ints = np.empty(0, np.int64)
        self.ends: Ints = np.empty(0, np.int64)

    def due(self, encoded: Ints) -> Ints:
        """The first instant after each bucket, its delay included."""
        if self.bucket.length is not None:
            ends = encoded + self.bucket.length
        elif self.unit is not None:
            ends = end_of(encoded, self.unit)
        else:
            values, where = np.unique(encoded, return_inverse=True)
            missing = values[~np.isin(values, self.known, assume_unique=True)]
            if len(missing):
                known = np.concatenate([self.known, missing])
                order = np.argsort(known)
                self.known, self.ends = known[order], np.concatenate([self.ends, self._found(missing)])[order]
            ends = self.ends[np.searchsorted(self.known, values)][where.reshape(-1)]
        due: Ints = np.minimum(ends, FOREVER - self.bucket.delay) + self.bucket.delay
        return due

    def forget(self, frontier: int) -> None:
        """Forget the ends of buckets that are over: no later row has their values."""
        stays = self.ends + self.bucket.delay > frontier
        self.known, self.ends = self.known[stays], self.ends[stays]

    def _found(self, encoded: Ints) -> Ints:
        """The first times whose values come after these, by bisection."""
        low, high = np.full(len(encoded), LOWEST, np.int64), np.full(len(encoded), _LAST, np.int64)
        while (low < high).any():
            # The middle, rounded down, of numbers whose difference may not fit.
            middle = (low >> 1) + (high >> 1) + (low & high & 1)
            beyond = self._is_beyond(middle, encoded)
            high = np.where(beyond, middle, high)
            low = np.where(beyond, low, np.minimum(middle, _LAST - 1) + 1)
        return np.minimum(low, FOREVER)

    def _is_beyond(self, times: Ints, encoded: Ints) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Whether the value at each time comes after the given one. A time without a value lies near an end of all times:
        before all values, or after them."""
        column = pa.array(times).cast(TIMESTAMP.arrow)
        given = {(self.column.ref, self.column.column): column}
        values = column if self._compiled is None else self._compiled(given, len(times), Issues())
        found, valid = self._encoder.encode(values, self.bucket.expression.type)
        beyond = found > encoded if self.rising else found < encoded
        return np.where(valid, beyond, times > EARLY) if len(valid) else beyond


class Buckets:
    def __init__(self, buckets: tuple[Bucket, ...], gap: int | None = None) -> None:
        self.ends = [Ends(bucket) for bucket in buckets]
        #: Of sessions, which end so long after their last row.
        self.gap = gap
        self.queue = ExpiryQueue()
        self.open = np.zeros(0, np.bool_)
        #: When each open group is due.
        self.due: Ints = np.zeros(0, np.int64)

    def due_of(self, groups: Ints) -> Ints:
        """When groups are due, given by their encoded grouping values: at the earliest end, for a combination lies in
        all buckets of its group."""
        found = []
        for ends in self.ends:
            at = ends.bucket.at
            due = ends.due(np.ascontiguousarray(groups[:, at]))
            found.append(np.where((groups[:, -1] >> at) & 1 == 1, FOREVER, due))
        earliest: Ints = found[0] if len(found) == 1 else np.minimum.reduce(found)
        return earliest

    def enter(self, codes: Ints, groups: Ints, clock: Ints) -> None:
        """Groups to which rows were added, and when; `groups` are the encoded values of all groups by code."""
        self.open, self.due = grown(self.open, len(groups)), grown(self.due, len(groups))
        if self.gap is not None:
            # Rows come in the order of time: the last one of a group decides.
            self.due[codes] = clock + self.gap + 1
        fresh = np.empty(len(codes), np.int64)
        fresh = fresh[: kernels.collect(self.open, codes, fresh, 0)]
        if len(fresh):
            if self.gap is None:
                self.due[fresh] = self.due_of(groups[fresh])
            self.queue.push(self.due[fresh], fresh)

    def closed(self, frontier: int) -> tuple[Ints, Ints]:
        """Codes of the groups that are complete and when each was due, in that order; they are no longer open."""
        codes = self.queue.pop(frontier + 1)
        due = self.due[codes]
        later = due > frontier
        if later.any():
            # Sessions to which rows came after they were put into the queue.
            self.queue.push(due[later], codes[later])
            codes, due = codes[~later], due[~later]
        order = np.argsort(due, kind="stable")
        self.open[codes] = False
        for ends in self.ends:
            ends.forget(frontier)
        return codes[order], due[order]
