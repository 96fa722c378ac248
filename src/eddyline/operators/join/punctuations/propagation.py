"""Punctuations of results: which values of output columns are finished.

Answer   `announce` gives, when an epoch has ended, one line per value that no result to come has. It has the value in
         all output columns that are equal to each other, null (= `*`) in the others, and the instant in `_ts`. A value
         is announced once.
State    Per class of equal output columns the values that were seen in rows or named by promises and are not finished,
         each with the instant at which it was first seen. Values that were announced, and lines that wait for
         `propagate = n` or `'d seconds'`.
Limits   Output columns that are columns of a reference, and not its event time, which is `_ts`. Values that
         ranges cover and that were never seen are not announced. On shards a column is announced where its value
         decides the shard of its results.
Reading  docs/punctuations.md
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.model.expressions.expression import ColumnRef
from eddyline.model.query import OutputColumn
from eddyline.model.records.punctuation import PATTERN, from_text
from eddyline.model.triggers import SinceLastRun, is_due, propagate_triggers
from eddyline.operators.join.group import JoinGroup
from eddyline.operators.join.policy import Came
from eddyline.operators.join.punctuations.alive import Pin
from eddyline.operators.join.punctuations.group_roots import GroupRoots
from eddyline.operators.project import result_schema
from eddyline.operators.promises.closed import Closed
from eddyline.operators.promises.closings import Closings
from eddyline.operators.promises.covering import constants
from eddyline.state.blocks import Blocks, Load, held_blocks
from eddyline.state.closed import codes_of
from eddyline.state.columns import Ints

_VALUE = "value"

#: Columns that are equal to each other, by reference, to which of their values have their results here: all, none, or
#: those that a function chooses.
Homes = Callable[[Collection[tuple[int, str]]], Callable[[pa.Array], npt.NDArray[np.bool_]] | bool]


def _everywhere(_: object) -> bool:
    return True


class _Class:
    """Output columns that are always equal."""

    def __init__(self, group: JoinGroup, closings: Closings, column: ColumnRef, homes: Homes) -> None:
        self.group = group
        self.homes = homes
        self.closings = closings
        self.type = column.type
        self.names: list[str] = []
        self.roots = GroupRoots(group, closings, (column,))
        self.open: pa.Array = pa.array([], column.type.arrow)
        self.since: Ints = np.empty(0, np.int64)
        self.announced = Closed({_VALUE: column.type})
        self._new: list[tuple[pa.Array, Ints]] = []

    @property
    def columns(self) -> set[tuple[int, str]]:
        """The columns of references that have the value."""
        return {(position, pin.column) for position, pin in self.pins if pin.is_column and pin.column is not None}

    @property
    def pins(self) -> list[tuple[int, Pin]]:
        return [(position, pin) for position, pins in self.roots.pins.items() for _, pin in pins]

    def see(self, fresh: Mapping[str, tuple[int, int]]) -> None:
        """New rows, by their ids in the stores of their streams."""
        self._see(
            {position: np.arange(*fresh.get(base.port.source, (0, 0))) for position, base in self.group.bases.items()}
        )

    def see_stored(self) -> None:
        """The rows that are stored, after a run that announced nothing."""
        self._see({position: base.store.ids() for position, base in self.group.bases.items()})

    def _see(self, rows: Mapping[int, Ints]) -> None:
        for position, pin in self.pins:
            base, ids = self.group.bases[position], rows[position]
            ids = base.wanted(ids)
            if len(ids) and not base.stream.is_table:
                values, ts = base.values_of(pin.key, ids), base.store.at("ts", ids)
                # Rows are in order of time: each value once, with its first row.
                encoded = values.dictionary_encode()
                present = np.asarray(encoded.indices.fill_null(len(encoded.dictionary))).astype(np.int64)
                first = np.zeros(len(encoded.dictionary) + 1, np.int64)
                first[present[::-1]] = np.arange(len(ids) - 1, -1, -1)
                self._new.append((encoded.dictionary, ts[first[:-1]]))

    def name_constants(self) -> None:
        """Values that the promises of this epoch name."""
        for position, pin in self.pins:
            closed = self.closings.closed.get(self.group.bases[position].port.source)
            for body, instants in closed.fresh if closed is not None and pin.is_column else ():
                if body.column_names == [PATTERN]:
                    self._name_patterns(body, instants, pin, closed)  # type: ignore[arg-type]
                elif pin.column in body.column_names:
                    self._new.append((body.column(pin.column).combine_chunks(), instants))

    def _name_patterns(self, body: pa.Table, instants: Ints, pin: Pin, closed: Closed) -> None:
        for text, instant in zip(body.column(PATTERN).to_pylist(), instants.tolist(), strict=True):
            pattern = from_text(text, closed.types).get(pin.column or "")
            if pattern is not None and pattern.constants is not None:
                values = constants(pattern.constants, self.type)
                self._new.append((values, np.full(len(values), instant)))

    def finished(self, frontier: int, came: Came) -> tuple[pa.Array, Ints]:
        """Values that have ended below the frontier, and when."""
        self._gather()
        if not len(self.open) or not self.roots.is_due(self.group):
            return self.open[:0], self.since[:0]
        until = np.maximum(self.roots.alive([self.open], len(self.open), came), self.since)
        over = until < frontier
        values, ends = self.open.filter(pa.array(over)), until[over]
        self.open, self.since = self.open.filter(pa.array(~over)), self.since[~over]
        self.announced.add(pa.table({_VALUE: values}), ends)
        self.announced.make_old()
        return values, ends

    def _gather(self) -> None:
        """What was seen in the epoch, each value once, without those that were announced."""
        if not self._new:
            return
        values = pa.concat_arrays([self.open, *(v.cast(self.type.arrow) for v, _ in self._new)])
        since = np.concatenate([self.since, *(s for _, s in self._new)])
        self._new = []
        fresh = ~self.announced.old({_VALUE: values}, len(values)) & np.asarray(values.is_valid())
        homes = self.homes(self.columns)
        if callable(homes) and len(values):
            fresh &= homes(values)
        values, since = values.filter(pa.array(fresh)), since[fresh]
        codes = codes_of(pa.table({_VALUE: values}))
        order = np.lexsort((since, codes))
        first = order[np.unique(codes[order], return_index=True)[1]]
        self.open, self.since = values.take(pa.array(first)), since[first]


class Propagation:
    """The output punctuations of one query."""

    def __init__(
        self,
        group: JoinGroup,
        closings: Closings,
        outputs: tuple[OutputColumn, ...],
        when: str,
        homes: Homes = _everywhere,
    ) -> None:
        self.group = group
        self.schema = result_schema(outputs)
        self.triggers = propagate_triggers(when)
        self.out = 0
        self.classes: list[_Class] = []
        self._waiting: list[pa.Table] = []
        self._last: int | None = None
        #: Begins the names of all blocks.
        self._prefix = f"finished-{group.config.name}-{uuid4().hex[:8]}"
        self._version = 0
        for output in outputs:
            column = output.expression
            if isinstance(column, ColumnRef) and self._can_finish(column, closings):
                self._class_of(column, closings, homes).names.append(output.name)
        # Where parts of a stream are, only columns that decide where their results are have an end that is seen.
        self.classes = [one for one in self.classes if homes(one.columns) is not False]

    def _can_finish(self, column: ColumnRef, closings: Closings) -> bool:
        assert isinstance(column.ref, int)
        base = self.group.bases[column.ref]
        return not base.stream.is_table and closings.times.get(base.port.source) != column.column

    def _class_of(self, column: ColumnRef, closings: Closings, homes: Homes) -> _Class:
        found = _Class(self.group, closings, column, homes)
        mine = {(position, pin.key) for position, pin in found.pins}
        for known in self.classes:
            if mine & {(position, pin.key) for position, pin in known.pins}:
                return known
        self.classes.append(found)
        return found

    def see(self, fresh: Mapping[str, tuple[int, int]]) -> None:
        for one in self.classes:
            one.see(fresh)

    def announce(self, frontier: int, came: Came, stop: int | None) -> list[pa.Table]:
        """The lines that are announced now, in the order of their instants."""
        found = []
        for one in self.classes:
            one.name_constants()
            values, ends = one.finished(frontier, came)
            if len(values):
                columns = {
                    name: values if name in one.names else pa.nulls(len(values), kind) for name, kind in self._columns()
                }
                found.append(pa.table({**columns, "_ts": pa.array(ends).cast(pa.timestamp("us"))}, schema=self.schema))
        if found:
            self._waiting.append(pa.concat_tables(found).sort_by("_ts"))
        self._version += 1
        if not self._waiting or not self._is_due(frontier):
            return []
        table = pa.concat_tables(self._waiting)
        self._waiting, self._last = [], frontier
        if stop is not None:
            table = table.filter(pa.array(table.column("_ts").cast(pa.int64()).to_numpy() <= stop))
        self.out += len(table)
        return [table] if len(table) else []

    def _columns(self) -> list[tuple[str, pa.DataType]]:
        return [(field.name, field.type) for field in self.schema if field.name != "_ts"]

    def _is_due(self, frontier: int) -> bool:
        span = None if self._last is None else frontier - self._last
        return is_due(self.triggers, SinceLastRun(new=sum(len(table) for table in self._waiting), span=span))

    def run_when(self, propagate: str) -> None:
        """Announce values by this `propagate` from now on."""
        self.triggers = propagate_triggers(propagate)

    # -- snapshots

    def snapshot(self) -> tuple[object, Blocks]:
        prefix = f"{self._prefix}-{self._version}"
        blocks: Blocks = {}
        classes = []
        for number, one in enumerate(self.classes):
            one._gather()
            announced, made = one.announced.snapshot(f"{self._prefix}-{number}")
            blocks |= made
            blocks |= held_blocks(f"{prefix}-{number}", {"open": pa.table({_VALUE: one.open, "since": one.since})})
            classes.append([f"{prefix}-{number}-open", announced])
        waiting = f"{prefix}-waiting" if self._waiting else None
        if self._waiting:
            blocks |= held_blocks(prefix, {"waiting": pa.concat_tables(self._waiting)})
        return {"classes": classes, "waiting": waiting, "last": self._last, "out": self.out}, blocks

    def restore(self, state: object, load: Load) -> None:
        if state is None:
            for one in self.classes:
                one.see_stored()
            return
        assert isinstance(state, dict)
        for one, (block, announced) in zip(self.classes, state["classes"], strict=True):
            table = load(block)
            one.open, one.since = (
                table.column(_VALUE).combine_chunks(),
                np.asarray(table.column("since")).astype(np.int64),
            )
            one.announced.restore(announced, load)
        self._waiting = [] if state["waiting"] is None else [load(state["waiting"])]
        self._last, self.out = state["last"], state["out"]
