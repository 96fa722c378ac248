"""Functions with OVER, and the first rows of a partition.

Answer   `Overs` binds the functions with OVER of one SELECT: ROW_NUMBER, LAG, FIRST_VALUE, LAST_VALUE. `Overs.finished`
         adds to a query the ranking of QUALIFY or ORDER BY … LIMIT, and the values of earlier rows. `check_ranking`
         refuses a ranking whose partitions are never final.
Limits   One ROW_NUMBER per query, as a whole output. LAG, FIRST_VALUE and LAST_VALUE follow the event time of one
         stream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from eddyline.errors import BindingProblem, Unsupported, located
from eddyline.language.binding.expressions import Clause, bind_expression
from eddyline.language.binding.further_aggregates import check_ordered
from eddyline.language.binding.group_windows import START
from eddyline.language.binding.grouping import check_grouped, ends
from eddyline.language.binding.scope import Scope
from eddyline.language.grammar.ranking_text import QUALIFY, most_rows
from eddyline.language.syntax import Constant, Item, Ordered, Over, Select
from eddyline.model.datatypes import BIGINT, INTERVAL, NULL
from eddyline.model.expressions.arranged import newest
from eddyline.model.expressions.coercion import convert
from eddyline.model.expressions.expression import Call, ColumnRef, Expression, walk
from eddyline.model.expressions.functions import resolve_aggregate
from eddyline.model.query import BoundQuery, OutputColumn
from eddyline.model.ranking import Followed, Ordering, Ranking
from eddyline.model.schema import Stream
from eddyline.model.window import Range, Unbounded

_FOLLOWED = ("lag", "first_value", "last_value")
_BUILD = "build one query on another: FROM (SELECT …) AS name"


class Overs:
    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.followed: list[Followed] = []
        self.numbered: list[Over] = []

    def bound(self, node: Over) -> Expression:
        """The expression that an output reads in place of the function."""
        if node.function == "row_number":
            if node.args:
                raise BindingProblem("row_number takes no argument", hint=QUALIFY)
            self.numbered.append(node)
            return Call("row_number", (self.scope.times[0],), BIGINT)
        if node.function not in _FOLLOWED:
            raise Unsupported(
                f"{node.function} OVER (…) is not supported",
                hint="with OVER there are ROW_NUMBER, LAG, FIRST_VALUE and LAST_VALUE; aggregates of the last rows have a window in FROM",
            )
        found = self._followed(node)
        if found not in self.followed:
            self.followed.append(found)
        return ColumnRef(self.scope.entries[0].alias, f"_over{self.followed.index(found)}", found.type)

    def _followed(self, node: Over) -> Followed:
        name = node.function
        entry = self.scope.entries[0]
        if (
            len(self.scope.entries) != 1
            or not isinstance(entry.relation, Stream)
            or not isinstance(entry.reference.window, Unbounded)
        ):
            raise Unsupported(f"{name} reads one stream without a window", hint=_BUILD)
        check_ordered(name, self.scope)
        clause = Clause(f"{name} OVER", self.scope)
        order = [(bind_expression(o.value, clause), o.descending) for o in node.order]
        if order not in ([], [(self.scope.times[0], False)]):
            hint = f"OVER (PARTITION BY k ORDER BY {entry.relation.called_time})"
            raise Unsupported(f"{name} follows the event time", hint=hint)
        most = 3 if name == "lag" else 1
        if not 1 <= len(node.args) <= most:
            hint = "write lag(x [, rows [, otherwise]])" if name == "lag" else f"write {name}(x)"
            raise BindingProblem(f"{name} does not take {len(node.args)} arguments", hint=hint)
        value = bind_expression(node.args[0], clause)
        if value.type in (INTERVAL, NULL) or value.type.is_nested:
            raise BindingProblem(f"{name} does not take {value.type}", hint="CAST it")
        distance, otherwise = 1, None
        if len(node.args) > 1:
            given = node.args[1]
            if not isinstance(given, Constant) or not isinstance(given.value, int) or not 1 <= given.value <= 1000:
                hint = "write lag(x, 2)"
                raise BindingProblem("lag looks back by 1 to 1000 rows", hint=hint, position=given.position)
            distance = given.value
        if len(node.args) > 2:
            otherwise = convert(bind_expression(node.args[2], clause), value.type)
        partition = tuple(bind_expression(p, clause) for p in node.partition)
        for key in partition:
            if key.type.is_nested:
                hint = "take a field or an element of it: a.b, a[1]"
                raise BindingProblem(f"PARTITION BY does not take {key.type}", hint=hint)
        return Followed(name, value, partition, distance, otherwise)

    def finished(
        self, query: BoundQuery, select: Select, items: Sequence[Item], names: Mapping[str, Expression]
    ) -> BoundQuery:
        """The query with its ranking and the values of earlier rows. `names` are those of its group window."""
        query = replace(query, followed=tuple(self.followed))
        if query.followed and query.is_aggregate:
            raise Unsupported(f"{query.followed[0].function} in an aggregate", hint=_BUILD)
        numbers = tuple(at for at, o in enumerate(query.outputs) if _is_number(o.expression))
        for at, output in enumerate(query.outputs):
            if at not in numbers and any(_is_number(x) for x in walk(output.expression)):
                hint = "ROW_NUMBER() OVER (…) AS place is an output of its own"
                raise Unsupported("ROW_NUMBER stands alone", hint=hint, position=items[at].position)
        if select.qualify is None and numbers:
            detail = "" if select.limit is not None else "how many rows are numbered has to be bounded"
            position = items[numbers[0]].position
            raise Unsupported("ROW_NUMBER needs QUALIFY", detail=detail, hint=QUALIFY, position=position)
        if select.qualify is None and select.limit is None:
            return query
        if select.qualify is not None and select.limit is not None:
            hint = "keep one of them"
            raise Unsupported("QUALIFY and LIMIT in one query", hint=hint, position=select.qualify.position)
        if query.distinct or (query.is_aggregate and not query.group_by):
            raise Unsupported("a ranking of one row, or of distinct rows", hint="GROUP BY says what is ranked")
        if query.followed:
            raise Unsupported("LAG and QUALIFY in one query", hint=_BUILD)
        outputs = {o.name.lower(): o.expression for o in query.outputs}
        clause = Clause("QUALIFY", self.scope, query.is_aggregate, outputs, dict(names))
        if select.qualify is None:
            # Rows of a window in FROM have no groups: the window is their partition.
            partition = self._windows(query) if query.is_aggregate or not names else (names[START],)
            return self._ranked(query, partition, select.order_by, select.limit or 1, numbers, clause)
        written = {o.name.lower(): item.value for o, item in zip(query.outputs, items, strict=True)}
        named = {name: node for name, node in written.items() if isinstance(node, Over)}
        over, most = most_rows(select.qualify, {n: node for n, node in named.items() if node.function == "row_number"})
        with located(over.position):
            if over.function != "row_number":
                raise Unsupported(f"{over.function} in QUALIFY is not supported", hint=QUALIFY)
            if any(node != over for node in self.numbered):
                raise Unsupported("two different row numbers in one query", hint="keep one")
            partition = tuple(dict.fromkeys(bind_expression(p, clause) for p in over.partition))
            return self._ranked(query, partition, over.order, most, numbers, clause)

    def _ranked(
        self,
        query: BoundQuery,
        partition: tuple[Expression, ...],
        written: Sequence[Ordered],
        most: int,
        numbers: tuple[int, ...],
        clause: Clause,
    ) -> BoundQuery:
        """The query with a ranking; `numbers` are the places of outputs that are row numbers."""
        order = [Ordering(bind_expression(o.value, clause), o.descending, o.nulls_first) for o in written]
        if any(item.expression.type == NULL for item in order):
            raise BindingProblem("ORDER BY NULL orders nothing", hint="order by a column")
        if not query.is_aggregate:
            return replace(query, ranking=Ranking(partition, tuple(order), most, numbers))
        # Of equal groups the one with the oldest combination is first, then the one with the smaller grouping columns.
        order.append(Ordering(resolve_aggregate("min", newest(self.scope.times))))
        order += [Ordering(key) for key in query.group_by]
        for expression in (*partition, *(o.expression for o in order)):
            check_grouped(expression, query.group_by)
        number = Call("row_number", (query.group_by[0],), BIGINT)
        outputs = tuple(OutputColumn(o.name, number) if at in numbers else o for at, o in enumerate(query.outputs))
        return replace(query, ranking=Ranking(partition, tuple(order), most, numbers), outputs=outputs)

    def _windows(self, query: BoundQuery) -> tuple[Expression, ...]:
        """ORDER BY … LIMIT chooses per window: the grouping expressions that are buckets of time."""
        return tuple(key for key in query.group_by if self.scope.bucketed_time(key) is not None)


def _is_number(e: Expression) -> bool:
    return isinstance(e, Call) and e.function == "row_number"


def check_ranking(query: BoundQuery, scope: Scope, select: Select) -> None:
    """Refuse a ranking that is emitted once unless its partitions end, and all rows of a partition are final then."""
    ranking = query.ranking
    if ranking is None:
        return
    if select.limit is not None and query.emit.kind == "change":
        raise Unsupported(
            "ORDER BY … LIMIT needs EMIT ON CLOSE or EMIT EVERY",
            detail="it chooses the first rows of a window, or of an instant",
            hint="add EMIT EVERY 10 SECONDS; QUALIFY ROW_NUMBER() OVER (…) <= n gives every change",
            position=select.emit_position,
        )
    for e in (*(o.expression for o in query.outputs), *ranking.partition, *(o.expression for o in ranking.order)):
        if e.type.is_nested:
            hint = "select a field or an element of it: a.b, a[1]"
            raise Unsupported(f"a ranking of {e.type} is not supported", hint=hint)
    window = query.group_window
    if window is not None and window.kind == "session":
        detail = "each group has windows of its own"
        raise Unsupported("sessions have no ranking", detail=detail, hint="build one query on another")
    if window is None and query.emit.kind != "close":
        return
    if query.by_promises:
        hint = "group by a time bucket too"
        raise Unsupported("groups that punctuations close have no ranking", detail="they end one by one", hint=hint)
    if window is not None:
        places = [window.end] if window.kind == "cumulate" else [window.start, window.end]
        is_final = any(at is not None and query.group_by[at] in ranking.partition for at in places)
        detail, wanted = f"EMIT {query.emit} ranks what one window holds", "window_end"
    else:
        buckets = []
        for key in query.group_by if query.is_aggregate else ranking.partition:
            time = scope.bucketed_time(key)
            if time is not None and ends(query, str(time.ref), Range):
                buckets.append(key)
        is_final = bool(buckets) and all(key in ranking.partition for key in buckets)
        detail = "EMIT ON CLOSE ranks a partition when its time bucket is over"
        wanted = str(buckets[-1]) if buckets else "date_trunc(…) of the event time"
    if not is_final:
        raise Unsupported(
            "the rows of a partition are not final together",
            detail=detail,
            hint=f"add {wanted} to PARTITION BY",
            position=select.emit_position if select.qualify is None else select.qualify.position,
        )
