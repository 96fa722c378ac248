"""Grouped aggregates, incremental: the cost of an epoch grows with the combinations that come and leave, not with those
that are live.

Answer   `enter` adds combinations to their groups, `leave` removes those whose windows have passed. `changes` gives the
         changelog rows of groups whose value differs from the one last emitted. `close` gives the groups of EMIT ON
         CLOSE that are complete. Where several aggregations hold parts of the same groups, `close` gives these parts,
         and `merged_parts` makes the results of them.

             batch ─► codes of groups ─► accumulators ─► values of touched groups ─► HAVING, outputs ─► changelog
                        └► contributions, by when they leave ─► retracted ─┘

State    Groups, accumulators, live contributions, the results that were emitted.
Limits   The caller passes instants and limits: this module does not read the frontier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from eddyline.kernels.groups import group as kernels
from eddyline.model.datatypes import BIGINT, TIMESTAMP
from eddyline.model.expressions.arranged import ARG_EXTREMES
from eddyline.model.expressions.expression import ColumnKey, ColumnRef, Expression
from eddyline.operators.aggregate.accumulators.accumulators import Accumulator, Distinct, LastingExtreme, live_values
from eddyline.operators.aggregate.accumulators.encoding import ALL, ValueEncoder, grown, is_text
from eddyline.operators.aggregate.accumulators.groups import Dictionary, Touched
from eddyline.operators.aggregate.accumulators.kinds import accumulator_of
from eddyline.operators.aggregate.buckets import FOREVER, Buckets
from eddyline.operators.aggregate.changelog import Emitted, change_table
from eddyline.operators.aggregate.config import AGGREGATE, KEY, AggregateConfig
from eddyline.operators.aggregate.contributions import Batch, Contributions
from eddyline.operators.aggregate.expiry import Limit
from eddyline.operators.aggregate.parts import in_slices
from eddyline.operators.aggregate.windows import Sessions
from eddyline.operators.expressions.evaluate import Issues, compile_expression, compile_predicate
from eddyline.operators.expressions.functions_arranged import payloads
from eddyline.operators.expressions.vectors import Mask
from eddyline.state.columns import Ints

_NONE: Ints = np.empty(0, np.int64)
Columns = dict[ColumnKey, pa.Array]


@dataclass(slots=True)
class GroupView:
    """Groups to be read, and the places of their values in `totals` and `kept`: their codes for the present instant,
    row numbers for several instants."""

    codes: Ints
    places: Ints
    totals: Ints
    kept: Sequence[Accumulator]

    def take(self, chosen: Mask) -> GroupView:
        return self if chosen.all() else GroupView(self.codes[chosen], self.places[chosen], self.totals, self.kept)


class Aggregation:
    def __init__(self, config: AggregateConfig) -> None:
        self.config = config
        self.schema = config.schema
        self.layout = layout = config.layout
        self.encoder = ValueEncoder()
        #: None: without GROUP BY there is one group, always.
        self.groups = Dictionary(len(config.group_by) + 1) if config.group_by else None
        self.totals: Ints = np.zeros(1, np.int64)
        self.contributions = (
            None if config.lasting else Contributions(len(layout.arguments), config.queues, config.named)
        )
        self.accumulators: list[Accumulator] = [
            accumulator_of(f, layout.arguments[f.argument].type, config.lasting, self.encoder) for f in layout.families
        ]
        #: Closed groups: the values of their grouping columns, and when each ended. None: no caller needs them.
        self.closed: list[tuple[list[pa.Array], Ints]] | None = None
        self.buckets = Buckets(config.buckets, config.gap) if config.buckets else None
        #: Outputs that are not grouping columns, with their types.
        self.computed: list[Expression] = [o for o in layout.outputs if not isinstance(o, int)]
        self._compiled = [None if isinstance(e, ColumnRef) else compile_expression(e) for e in self.computed]
        self._having = None if layout.having is None else compile_predicate(layout.having)
        self.emitted = Emitted(len(self.computed))
        self.touched = Touched()
        #: Groups that came and went between two outputs.
        self.unseen = 0
        #: By group; -1 between two calls of `changes_at`, which works with it.
        self.latest_rows: Ints = np.empty(0, np.int64)
        self.reserve()
        if self.groups is None:
            self.touched.note(np.zeros(1, np.int64), 1)

    @property
    def closes(self) -> bool:
        """Whether a group is emitted once, when its bucket is over."""
        return self.config.emit.kind == "close"

    @property
    def capacity(self) -> int:
        """All codes of groups are below."""
        return 1 if self.groups is None else self.groups.capacity

    def reserve(self) -> None:
        """Room for all codes."""
        if len(self.emitted.present) < self.capacity:
            self.totals = grown(self.totals, self.capacity)
            self.latest_rows = grown(self.latest_rows, self.capacity, -1)
            self.emitted.reserve(self.capacity)
            for kept in self.accumulators:
                kept.reserve(self.capacity)

    def note(self, codes: Ints) -> None:
        """The state of groups has changed: the next snapshot writes it."""
        if self.groups is not None:
            self.groups.note(codes)

    # -- combinations come and leave

    def place(self, batch: Batch) -> tuple[Ints, Ints]:
        """Codes of the groups of combinations, and the slots that hold them until they leave."""
        codes = np.zeros(len(batch), np.int64) if self.groups is None else self.groups.codes(batch.groups)
        self.reserve()
        if self.buckets is not None and self.groups is not None:
            self.buckets.enter(codes, self.groups.keys, batch.clock)
        if self.contributions is None:
            return codes, _NONE
        return codes, self.contributions.add(codes, batch.encoded, batch.valid, batch.leaving)

    def enter(self, batch: Batch) -> None:
        codes, slots = self.place(batch)
        kernels.add_counts(self.totals, codes, ALL, 1)
        for family, kept in zip(self.layout.families, self.accumulators, strict=True):
            held = _NONE if self.contributions is None else self.contributions.encoded[family.argument]
            kept.add(codes, slots, batch.encoded[family.argument], batch.valid[family.argument], held)
        if not self.closes:
            self.touched.note(codes, self.capacity)

    def leave(self, limits: Sequence[Limit]) -> None:
        """Remove the combinations with a key below their queue's limit."""
        if self.contributions is None:
            return
        slots = self.contributions.leaving(limits)
        if not len(slots):
            return
        codes = self.contributions.codes[slots]
        kernels.add_counts(self.totals, codes, ALL, -1)
        for family, kept in zip(self.layout.families, self.accumulators, strict=True):
            held = self.contributions.encoded[family.argument]
            kept.retract(codes, slots, held[slots], self.contributions.valid_at(family.argument, slots), held)
        self.contributions.drop(slots)
        self.touched.note(codes, self.capacity)
        self.note(codes)

    # -- values of groups

    def changes(self, now: int, issues: Issues) -> pa.Table | None:
        """The changelog rows of `now`; None: there are none."""
        codes = self.touched.take()
        if not len(codes):
            return None
        self.note(codes)
        alive = self.totals[codes] > 0 if self.groups is not None else np.ones(1, np.bool_)
        stays, outputs = self.outputs(self._now(codes), alive, issues)
        held, gone = codes[stays], codes[~stays & self.emitted.present[codes]]
        if self._having is None:
            self.unseen += int((~alive & ~self.emitted.present[codes]).sum())
        present = np.ones(len(held), np.bool_)
        _, changed = self.emitted.put(held, present, outputs, [e.type for e in self.computed], self.encoder)
        self.emitted.remove(gone)
        plus = held[changed]
        table = None
        if len(gone) or len(plus):
            outputs = outputs if len(plus) == len(held) else [o.filter(pa.array(changed)) for o in outputs]
            both = np.concatenate([gone, plus])
            table = self.table(both, outputs, len(gone), np.full(len(both), now, np.int64))
        self.release(codes[~alive])
        return table

    def close(self, frontier: int, stop: int | None, issues: Issues, *, parts: bool = False) -> pa.Table | None:
        """The results of groups whose bucket lies below the frontier; `stop` is the last `_ts` that is emitted.

        With `parts` the state of the groups instead, before HAVING and outputs: for `merged_parts`, in slices.
        """
        assert self.buckets is not None
        return self.close_groups(*self.buckets.closed(frontier), stop, issues, parts=parts)

    def open_groups(self) -> tuple[Ints, list[pa.Array]]:
        """The codes of all groups, and the values of their grouping columns."""
        assert self.groups is not None
        self.touched.take()
        codes = self.groups.live()
        return codes, [self.key_column(at, codes) for at in range(len(self.config.group_by))]

    def close_groups(
        self, codes: Ints, due: Ints, stop: int | None, issues: Issues, *, parts: bool = False
    ) -> pa.Table | None:
        """The results of groups that are complete, each at the instant before it was due; the groups are released."""
        assert self.groups is not None
        if not len(codes):
            return None
        wanted = np.ones(len(codes), np.bool_) if stop is None else due <= stop + 1
        if parts:
            stamps = pa.array(due[wanted] - 1, TIMESTAMP.arrow)
            held = self.held_by(codes[wanted]).append_column("_ts", stamps)
            table = in_slices(held, self.config.group_by, due[wanted])
        else:
            stays, outputs = self.outputs(self._now(codes), wanted, issues)
            table = self.table(codes[stays], outputs, 0, due[stays] - 1) if stays.any() else None
        if self.closed is not None:
            columns = [self.key_column(at, codes) for at in range(len(self.config.group_by))]
            self.closed.append((columns, due - 1))
        self.release(codes)
        return table

    def forget(self, now: int) -> None:
        """Release groups whose bucket is over after `now`: their last value has been emitted and remains the result."""
        if self.buckets is None or self.closes:
            return
        codes, _ = self.buckets.closed(now + 1)
        self.emitted.remove(codes)
        self.release(codes)

    # -- groups in parts

    def held_by(self, codes: Ints) -> pa.Table:
        """The state of groups that no combination leaves, as columns that another aggregation can read."""
        columns = {f"key-{at}": self.key_column(at, codes) for at in range(len(self.config.group_by))}
        columns["total"] = pa.array(self.totals[codes])
        for at, kept in enumerate(self.accumulators):
            part = kept.part(codes)
            columns |= {f"state-{at}-{name}": part.column(name) for name in part.column_names}
        return pa.table(columns)

    def enter_parts(self, parts: pa.Table) -> None:
        """Add groups as another aggregation of the same query held them."""
        assert self.groups is not None
        parts = parts.combine_chunks()
        keys = [parts.column(f"key-{at}").combine_chunks() for at in range(len(self.config.group_by))]
        codes = self.groups.codes(self.encoder.encode_rows(keys, [e.type for e in self.config.group_by]))
        self.reserve()
        np.add.at(self.totals, codes, parts.column("total").to_numpy())
        for at, kept in enumerate(self.accumulators):
            prefix = f"state-{at}-"
            names = [name for name in parts.column_names if name.startswith(prefix)]
            kept.merge(codes, parts.select(names).rename_columns([name.removeprefix(prefix) for name in names]))
        if self.buckets is not None:
            stamps = parts.column("_ts").combine_chunks().cast(BIGINT.arrow).to_numpy(zero_copy_only=False)
            self.buckets.enter(codes, self.groups.keys, stamps)
        else:
            self.touched.note(codes, self.capacity)

    def _now(self, codes: Ints) -> GroupView:
        """The groups at the present instant; sums that have lost digits are computed anew."""
        if self.contributions is not None:
            for family, kept in zip(self.layout.families, self.accumulators, strict=True):
                kept.renew(codes, live_values(self.contributions, family.argument), self.capacity)
        return GroupView(codes, codes, self.totals, self.accumulators)

    def outputs(self, groups: GroupView, alive: Mask, issues: Issues) -> tuple[Mask, list[pa.Array]]:
        """Which groups are in the answer, and their computed outputs."""
        view = groups.take(alive)
        columns = self._columns(view, issues)
        stays, count = alive, len(view.codes)
        if self._having is not None:
            holds = self._having(columns, count, issues)
            if not holds.all():
                stays, count = alive.copy(), int(holds.sum())
                stays[alive] = holds
                columns = {name: values.filter(pa.array(holds)) for name, values in columns.items()}
        return stays, [
            columns[e.ref, e.column] if isinstance(e, ColumnRef) else compiled(columns, count, issues)  # type: ignore[misc]
            for e, compiled in zip(self.computed, self._compiled, strict=True)
        ]

    def _columns(self, groups: GroupView, issues: Issues) -> Columns:
        columns: Columns = {
            (KEY, str(at)): self.key_column(at, groups.codes) for at in range(len(self.config.group_by))
        }
        for at, (function, family_number) in enumerate(self.layout.aggregates):
            if family_number < 0:
                columns[AGGREGATE, str(at)] = pa.array(groups.totals[groups.places], BIGINT.arrow)
            else:
                found = groups.kept[family_number].read(function, groups.places, issues)
                if function in ARG_EXTREMES:
                    found = payloads(found, self.layout.families[family_number].aggregate.type)
                columns[AGGREGATE, str(at)] = found
        return columns

    def key_column(self, at: int, codes: Ints) -> pa.Array:
        assert self.groups is not None
        nulls = self.groups.keys[codes, -1]
        valid = (nulls >> at) & 1 == 0 if nulls.any() else ALL
        return self.encoder.decode(self.groups.keys[codes, at], valid, self.config.group_by[at].type)

    def table(self, codes: Ints, outputs: list[pa.Array], gone: int | Mask, stamps: Ints) -> pa.Table:
        """Rows of the changelog. `gone`: how many rows, the first ones, are of groups without outputs; or a mask of such
        rows, for which the outputs have nulls."""
        if not isinstance(gone, int):
            lost = gone
        else:
            lost = np.arange(len(codes)) < gone
            outputs = [pa.concat_arrays([pa.nulls(gone, o.type), o]) for o in outputs] if gone else outputs
        rest = iter(outputs)
        columns = [self.key_column(o, codes) if isinstance(o, int) else next(rest) for o in self.layout.outputs]
        return change_table(self.schema, columns, lost, stamps)

    def release(self, codes: Ints) -> None:
        if self.groups is None or not len(codes):
            return
        self.groups.release(codes)
        self.totals[codes] = 0
        for kept in self.accumulators:
            kept.reset(codes)

    # -- strings that are still in use

    def sweep(self, waiting: Callable[[], Iterable[Batch]], sessions: Sessions | None = None) -> None:
        """Forget strings that are not in use, when there are many; the batches of `waiting` have not entered yet."""
        if self.encoder.is_full:
            self.encoder.sweep(self._used_ids(waiting(), sessions))

    def _used_ids(self, waiting: Iterable[Batch], sessions: Sessions | None) -> Iterable[Ints]:
        key_texts = [at for at, e in enumerate(self.config.group_by) if is_text(e.type)]
        argument_texts = [at for at, e in enumerate(self.layout.arguments) if is_text(e.type)]
        if sessions is not None:
            yield from sessions.used_ids(key_texts)
        if self.groups is not None:
            yield from (self.groups.keys[self.groups.live(), at] for at in key_texts)
        if self.contributions is not None:
            yield from (self.contributions.encoded[at][self.contributions.live()] for at in argument_texts)
        for batch in waiting:
            yield from (batch.groups[:, at] for at in key_texts)
            yield from (batch.encoded[at] for at in argument_texts)
        for family, kept in zip(self.layout.families, self.accumulators, strict=True):
            if family.argument in argument_texts:
                if isinstance(kept, Distinct):
                    yield kept.values.keys[kept.values.live(), 1]
                elif isinstance(kept, LastingExtreme):
                    yield kept.extremes[kept.known]
        for at, e in enumerate(self.computed):
            if is_text(e.type):
                yield self.emitted.encoded[self.emitted.present & self.emitted.valid[:, at], at]


def merged_parts(config: AggregateConfig, parts: Iterable[pa.Table], issues: Issues) -> pa.Table:
    """The results of groups of EMIT ON CLOSE whose parts several aggregations hold; `parts` has all parts of each of
    them."""
    whole = Aggregation(config)
    for table in parts:
        whole.enter_parts(table)
    found = whole.close(FOREVER, None, issues)
    return config.schema.empty_table() if found is None else found
