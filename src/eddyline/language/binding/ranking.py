"""Functions with OVER, and the first rows of a partition.

Answer   `Overs` binds the functions with OVER of one SELECT: ROW_NUMBER, LAG, FIRST_VALUE, LAST_VALUE; `Overs.finished`
         adds what QUALIFY, ORDER BY … LIMIT and these functions say to a query. `check_ranking` refuses what has no
         meaning or no end.
Limits   One ROW_NUMBER per query, as a whole output. LAG, FIRST_VALUE and LAST_VALUE follow the event time of one
         stream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from eddyline.errors import BindingProblem, Position, Unsupported
from eddyline.language.binding.expressions import Clause, bind_expression
from eddyline.language.binding.further_aggregates import check_ordered
from eddyline.language.binding.group_windows import START
from eddyline.language.binding.grouping import check_grouped
from eddyline.language.binding.scope import Scope
from eddyline.language.grammar.ranking_text import QUALIFY, most_rows
from eddyline.language.syntax import Constant, Item, Ordered, Over, Select
from eddyline.model.datatypes import BIGINT, INTERVAL, NULL, TIMESTAMP
from eddyline.model.expressions.arranged import newest
from eddyline.model.expressions.coercion import convert
from eddyline.model.expressions.expression import Call, ColumnRef, Expression, walk
from eddyline.model.expressions.functions import resolve_aggregate
from eddyline.model.expressions.monotone import trend_of
from eddyline.model.query import BoundQuery, OutputColumn
from eddyline.model.ranking import Followed, Ordering, Ranking
from eddyline.model.schema import Stream
from eddyline.model.window import Range, Unbounded

_FOLLOWED = ("lag", "first_value", "last_value")


class Overs:
    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.followed: list[Followed] = []
        self.numbered: list[Over] = []

    @property
    def times(self) -> list[ColumnRef]:
        return [
            ColumnRef(e.alias, e.relation.time, TIMESTAMP) for e in self.scope.entries if isinstance(e.relation, Stream)
        ]

    def bound(self, node: Over) -> Expression:
        """The expression that an output reads in place of the function."""
        if node.function == "row_number":
            if node.args:
                raise BindingProblem("row_number takes no argument", hint=QUALIFY, position=node.position)
            self.numbered.append(node)
            return Call("row_number", (self.times[0],), BIGINT)
        if node.function not in _FOLLOWED:
            raise Unsupported(
                f"{node.function} OVER (…) is not supported",
                hint="with OVER there are ROW_NUMBER, LAG, FIRST_VALUE and LAST_VALUE; aggregates of the last rows have a window in FROM",
                position=node.position,
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
            raise Unsupported(
                f"{name} reads one stream without a window",
                hint="build one query on another: FROM (SELECT …) AS name",
                position=node.position,
            )
        check_ordered(name, self.scope, node)
        clause = Clause(f"{name} OVER", self.scope)
        order = [bind_expression(o.value, clause) for o in node.order]
        if [(e, o.descending) for e, o in zip(order, node.order, strict=True)] not in ([], [(self.times[0], False)]):
            raise Unsupported(
                f"{name} follows the event time",
                hint=f"OVER (PARTITION BY k ORDER BY {entry.relation.called_time})",
                position=node.position,
            )
        most = 3 if name == "lag" else 1
        if not 1 <= len(node.args) <= most:
            hint = "write lag(x [, rows [, otherwise]])" if name == "lag" else f"write {name}(x)"
            raise BindingProblem(f"{name} does not take {len(node.args)} arguments", hint=hint, position=node.position)
        value = bind_expression(node.args[0], clause)
        if value.type in (INTERVAL, NULL) or value.type.is_nested:
            raise BindingProblem(f"{name} does not take {value.type}", hint="CAST it", position=node.position)
        distance, otherwise = 1, None
        if len(node.args) > 1:
            given = node.args[1]
            if not isinstance(given, Constant) or not isinstance(given.value, int) or not 1 <= given.value <= 1000:
                raise BindingProblem(
                    "lag looks back by 1 to 1000 rows", hint="write lag(x, 2)", position=given.position
                )
            distance = given.value
        if len(node.args) > 2:
            otherwise = convert(bind_expression(node.args[2], clause), value.type)
        partition = tuple(bind_expression(p, clause) for p in node.partition)
        for key in partition:
            if key.type.is_nested:
                hint = "take a field or an element of it: a.b, a[1]"
                raise BindingProblem(f"PARTITION BY does not take {key.type}", hint=hint, position=node.position)
        return Followed(name, value, partition, distance, otherwise)

    def finished(
        self, query: BoundQuery, select: Select, items: Sequence[Item], names: Mapping[str, Expression]
    ) -> BoundQuery:
        """The query with its ranking, and with what follows earlier rows. `names` are those of its group window."""
        query = replace(query, followed=tuple(self.followed))
        if query.followed and query.is_aggregate:
            raise Unsupported(
                f"{query.followed[0].function} in an aggregate",
                hint="build one query on another: FROM (SELECT …) AS name",
                position=select.position,
            )
        written = {
            o.name.lower(): item.value
            for o, item in zip(query.outputs, items, strict=True)
            if isinstance(item.value, Over)
        }
        numbers = tuple(at for at, o in enumerate(query.outputs) if _is_number(o.expression))
        for at, output in enumerate(query.outputs):
            if at not in numbers and any(_is_number(x) for x in walk(output.expression)):
                raise Unsupported(
                    "ROW_NUMBER stands alone",
                    hint="ROW_NUMBER() OVER (…) AS place is an output of its own",
                    position=items[at].position,
                )
        if select.qualify is None and select.limit is None:
            if numbers:
                raise Unsupported(
                    "ROW_NUMBER needs QUALIFY",
                    detail="how many rows are numbered has to be bounded",
                    hint=QUALIFY,
                    position=items[numbers[0]].position,
                )
            return query
        if select.qualify is not None and select.limit is not None:
            raise Unsupported(
                "QUALIFY and LIMIT in one query", hint="keep one of them", position=select.qualify.position
            )
        if query.distinct or (query.is_aggregate and not query.group_by):
            raise Unsupported(
                "a ranking of one row, or of distinct rows",
                hint="GROUP BY says what is ranked",
                position=select.position,
            )
        if query.followed:
            raise Unsupported(
                "LAG and QUALIFY in one query",
                hint="build one query on another: FROM (SELECT …) AS name",
                position=select.position,
            )
        clause = Clause(
            "QUALIFY",
            self.scope,
            query.is_aggregate,
            {o.name.lower(): o.expression for o in query.outputs},
            dict(names),
        )
        if select.qualify is not None:
            over, most = most_rows(
                select.qualify, {name: node for name, node in written.items() if node.function == "row_number"}
            )
            if over.function != "row_number":
                raise Unsupported(f"{over.function} in QUALIFY is not supported", hint=QUALIFY, position=over.position)
            if any(node != over for node in self.numbered):
                raise Unsupported("two different row numbers in one query", hint="keep one", position=over.position)
            partition: tuple[Expression, ...] = tuple(dict.fromkeys(bind_expression(p, clause) for p in over.partition))
            order, position = over.order, over.position
        else:
            if numbers:
                raise Unsupported("ROW_NUMBER needs QUALIFY", hint=QUALIFY, position=items[numbers[0]].position)
            order, position, most = select.order_by, select.position, select.limit or 1
            # Rows of a window in FROM have no groups: the window is their partition.
            partition = self._windows(query) if query.is_aggregate or not names else (names[START],)
        ranking = Ranking(partition, self._order(query, order, clause, position), most, numbers)
        outputs = query.outputs
        if query.is_aggregate:
            for expression in (*partition, *(o.expression for o in ranking.order)):
                check_grouped(expression, query.group_by, position)
            number = Call("row_number", (query.group_by[0],), BIGINT)
            outputs = tuple(OutputColumn(o.name, number) if at in numbers else o for at, o in enumerate(outputs))
        return replace(query, ranking=ranking, outputs=outputs)

    def _order(
        self, query: BoundQuery, written: Sequence[Ordered], clause: Clause, position: Position | None
    ) -> tuple[Ordering, ...]:
        order = [Ordering(bind_expression(o.value, clause), o.descending, o.nulls_first) for o in written]
        for item in order:
            if item.expression.type == NULL:
                raise BindingProblem("ORDER BY NULL orders nothing", hint="order by a column", position=position)
        if query.is_aggregate:
            # Of equal groups the one with the oldest combination is first, then the one with the smaller grouping
            # columns.
            order.append(Ordering(resolve_aggregate("min", newest(self.times))))
            order += [Ordering(key) for key in query.group_by]
        return tuple(order)

    def _windows(self, query: BoundQuery) -> tuple[Expression, ...]:
        """ORDER BY … LIMIT chooses per window: the grouping expressions that are buckets of time."""
        return tuple(
            key
            for key in query.group_by
            if (trend := trend_of(key)) is not None and self.scope.is_event_time(trend.column)
        )


def _is_number(e: Expression) -> bool:
    return isinstance(e, Call) and e.function == "row_number"


def check_ranking(query: BoundQuery, scope: Scope, select: Select) -> None:
    """A ranking that is emitted once needs partitions that are over some time, all of whose rows are final then."""
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
            raise Unsupported(
                f"a ranking of {e.type} is not supported",
                hint="select a field or an element of it: a.b, a[1]",
                position=select.position,
            )
    window = query.group_window
    if window is not None and window.kind == "session":
        raise Unsupported(
            "sessions have no ranking",
            detail="each group has windows of its own",
            hint="build one query on another",
            position=select.position,
        )
    if window is None and query.emit.kind != "close":
        return
    if query.by_promises:
        raise Unsupported(
            "groups that punctuations close have no ranking",
            detail="they end one by one",
            hint="group by a time bucket too",
            position=select.position,
        )
    if window is not None:
        wanted = [
            query.group_by[at]
            for at in (window.start, window.end)
            if at is not None and (window.kind != "cumulate" or at == window.end)
        ]
        named = any(key in ranking.partition for key in wanted)
    else:
        keys = query.group_by if query.is_aggregate else ranking.partition
        wanted = [key for key in keys if (trend := trend_of(key)) is not None and _is_over(query, scope, trend.column)]
        named = bool(wanted) and all(key in ranking.partition for key in wanted)
    if not named:
        raise Unsupported(
            "the rows of a partition are not final together",
            detail=f"EMIT {query.emit} ranks what one window holds"
            if window is not None
            else "EMIT ON CLOSE ranks a partition when its time bucket is over",
            hint=f"add {wanted[-1] if wanted else 'date_trunc(…) of the event time'} to PARTITION BY"
            if window is None
            else "add window_end to PARTITION BY",
            position=select.emit_position if select.qualify is None else select.qualify.position,
        )


def _is_over(query: BoundQuery, scope: Scope, column: ColumnRef) -> bool:
    """Whether the buckets of an event time are over some time."""
    if not scope.is_event_time(column):
        return False
    return len(query.streams) == 1 or isinstance(query.reference(str(column.ref)).window, Range)
