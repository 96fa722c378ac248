"""From pairs of row ids to combinations: windows, lineage, equalities that a hash does not decide, residual conditions.

Answer   `join` gives the combinations of the pairs that a probe found, without those that fail a test.
State    Compiled conditions.
Limits   Payload is gathered for the columns of the conditions that are tested, and for nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.kernels import order as order_kernels
from eddyline.model.expressions.expression import ColumnKey, Expression
from eddyline.model.joining import Equality
from eddyline.operators.expressions.evaluate import Predicate, compile_predicate
from eddyline.operators.expressions.vectors import Issues
from eddyline.operators.join.combination import Combinations, LineageBits, any_bit
from eddyline.operators.join.inputs import Input, StreamInput
from eddyline.operators.join.join_slice import RowsSeen
from eddyline.operators.join.probing.modes import PairCells
from eddyline.operators.join.probing.steps import ProbeStep
from eddyline.state.columns import Ints, StringColumn

#: Beside the references of combinations: the cells that their pairs lie in.
_CELL = -1
#: Beside the references of combinations: the numbers of their pairs.
NUMBER = -2


@dataclass(frozen=True, slots=True)
class Verification:
    bases: Mapping[int, StreamInput]
    issues: Issues | None
    _predicates: dict[Expression, Predicate] = field(default_factory=dict)

    def join(
        self,
        one: Input,
        rows: Combinations,
        left: Ints,
        right: Ints,
        step: ProbeStep,
        rows_seen: RowsSeen | None,
        keeps: bool,
        cells: PairCells | None = None,
        numbers: bool = False,
    ) -> Combinations:
        """The combinations of `rows[left]` with the rows `right` of an input.

        Args:
            rows_seen: None where windows are not tested.
            keeps: the combinations are stored, so they need the instant at which they die.
            cells: where conditions are known to hold.
            numbers: combinations have the numbers of their pairs among their ids, as `NUMBER`.
        """
        added = one.expand(right)
        lineage = one.lineage(right)
        if rows.lineage is not None:
            lineage = both_lineages(rows.lineage.take(left, axis=0), lineage)
        made = Combinations(
            {**{r: ids.take(left) for r, ids in rows.ids.items()}, **added},
            rows.stamp.take(left),
            rows.clock.take(left),
            np.minimum(rows.dead.take(left), one.deaths(right)) if keeps and rows.dead is not None else None,
            lineage,
        )
        if cells is not None:
            made.ids[_CELL] = cells.kinds  # type: ignore[assignment]
        if numbers:
            made.ids[NUMBER] = np.arange(len(left))
        if rows_seen is not None:
            made = self.in_windows(made, tuple(added), rows_seen)
        if made.lineage is not None:
            made = self.wanted(made)
        tests = [(equality.condition, partial(self.same, equality)) for equality in step.verify]
        tests += [(condition, partial(self.holds, condition)) for condition in step.conditions]
        for at, (condition, test) in enumerate(tests):
            made = self._tested(condition, test, made, cells, at + 1 == len(tests))
        made.ids.pop(_CELL, None)
        return made

    def _tested(
        self,
        condition: Expression,
        test: Callable[[Combinations], npt.NDArray[np.bool_]],
        made: Combinations,
        cells: PairCells | None,
        is_last: bool,
    ) -> Combinations:
        """The combinations for which a condition holds; it is not tested where it is known to."""
        if not len(made):
            return made
        some = None if cells is None else cells.tested(made.ids[_CELL], condition)
        if some is None:
            good = test(made)
        elif not len(some):
            return made
        else:
            good = np.ones(len(made), np.bool_)
            # A test reads rows, and nothing else of a combination.
            good[some] = test(
                Combinations({r: ids[some] for r, ids in made.ids.items() if r != _CELL}, some, some, None, None)
            )
        if is_last:
            made.ids.pop(_CELL, None)
        return made if good.all() else made.take(good)

    def wanted(self, made: Combinations) -> Combinations:
        """The combinations that some query wants."""
        if made.lineage is not None:
            wanted = any_bit(made.lineage)
            if not wanted.all():
                made = made.take(wanted)
        return made

    def in_windows(self, made: Combinations, added: tuple[int, ...], rows_seen: RowsSeen) -> Combinations:
        """The combinations whose rows of the added references are in the window of some query; lineage loses the other
        queries."""
        for reference in added:
            base = self.bases[reference]
            port = base.port
            if port.judge is not None and len(made):
                made = self.held(made, reference)
                alive = port.judge(made.ids[reference], made.rank)
                made = made if alive.all() else made.take(alive)
            if base.stream.is_table or not port.tells_windows_apart or not len(made):
                continue
            if port.most_rows:
                # An id that the store has forgotten is out of every counted window, and can no longer be looked up.
                made = self.held(made, reference)
            ids = made.ids[reference]
            counts = None
            if not port.most_rows and made.lineage is not None:
                alive = port.keep_within(made.lineage, made.clock - base.store.at("ts", ids))
                if not alive.all():
                    made = made.take(alive)
                continue
            if port.most_rows:
                counts = rows_seen(reference, made.rank) - base.store.at(port.reader.numbers, ids)
            inside = port.inside(made.clock - base.store.at("ts", ids), counts)
            lineage = inside if made.lineage is None else made.lineage & inside
            alive = any_bit(lineage)
            made.lineage = lineage if len(port.members) > 1 or made.lineage is not None else None
            if not alive.all():
                made = made.take(alive)
        return made

    def held(self, made: Combinations, reference: int) -> Combinations:
        """The combinations whose row of a reference is still stored."""
        held = self.bases[reference].store.holds(made.ids[reference])
        return made if held.all() else made.take(held)

    def same(self, equality: Equality, made: Combinations) -> npt.NDArray[np.bool_]:
        """Whether both sides of an equality have one value, not only one hash."""
        a, b = self.bases[equality.left], self.bases[equality.right]
        at_a, at_b = made.ids[equality.left], made.ids[equality.right]
        same: npt.NDArray[np.bool_] = a.store.at(equality.left_key, at_a) == b.store.at(equality.right_key, at_b)
        if equality.exact or not len(made):
            return same
        one, other = (s.store.payload.get(c) for s, c in zip((a, b), equality.text_columns or ("", ""), strict=True))
        if isinstance(one, StringColumn) and isinstance(other, StringColumn):
            texts: npt.NDArray[np.bool_] = order_kernels.equal_strings(
                one.offsets,
                one.data,
                one.shift,
                at_a - a.store.base,
                other.offsets,
                other.data,
                other.shift,
                at_b - b.store.base,
            )
            return same & texts
        return same & self.holds(equality.condition, made)

    def holds(self, condition: Expression, made: Combinations) -> npt.NDArray[np.bool_]:
        if condition not in self._predicates:
            self._predicates[condition] = compile_predicate(condition)
        predicate = self._predicates[condition]
        columns: dict[ColumnKey, pa.Array] = {}
        for reference, column in predicate.columns:
            assert isinstance(reference, int)
            columns[reference, column] = self.bases[reference].store.gather(column, made.ids[reference])
        return predicate(columns, len(made), self.issues)


def both_lineages(a: LineageBits | None, b: LineageBits | None) -> LineageBits | None:
    """The queries that want both; None: all queries."""
    if a is None or b is None:
        return b if a is None else a
    return a & b
