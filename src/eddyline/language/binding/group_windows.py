"""Group windows: TUMBLE, HOP, CUMULATE and SESSION in GROUP BY, and their spelling as table functions in FROM.

Answer   `read_table_function` reads the table function after `FROM TABLE`. `take_window` finds the one group window of
         a SELECT and leaves the SELECT without it. `bind_window` gives the expressions that `window_start` and
         `window_end` stand for; `add_keys` makes those that are used grouping expressions.

             TUMBLE(ts, span [, offset])    HOP(ts, slide, span)    CUMULATE(ts, step, span)    SESSION(ts, gap)

Limits   One group window per query, over the event time of a stream; SESSION only where FROM has one stream.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from eddyline.errors import BindingProblem, Position, SyntaxProblem, Unsupported, located
from eddyline.language.binding.scope import Scope
from eddyline.language.syntax import Apply, Cast, Constant, Name, Node, Select
from eddyline.language.text.reader import StatementReader
from eddyline.language.text.windows import parse_span
from eddyline.model.datatypes import INTERVAL
from eddyline.model.expressions.expression import Expression, Literal, children
from eddyline.model.expressions.functions import resolve, resolve_aggregate
from eddyline.model.query import GroupWindow

SPELLINGS = {
    "tumble": "TUMBLE(ts, '10 seconds')",
    "hop": "HOP(ts, '5 seconds', '10 seconds')",
    "cumulate": "CUMULATE(ts, '1 minute', '1 hour')",
    "session": "SESSION(ts, '30 seconds')",
}
START, END = "window_start", "window_end"


def read_table_function(reader: StatementReader) -> tuple[str, Apply]:
    """What follows TABLE in FROM: the stream, and the group window in the form that GROUP BY has."""
    reader.expect("(", hint=_FROM)
    start = reader.position
    function = reader.word("TUMBLE, HOP, CUMULATE or SESSION").lower()
    if function not in SPELLINGS:
        raise SyntaxProblem(f"there is no table function {function.upper()}", hint=_FROM, position=start)
    reader.expect("(", "TABLE", hint=_FROM)
    stream = reader.name("a stream")
    if reader.take("PARTITION"):
        # Sessions are partitioned by the grouping columns of the query, which this clause only repeats.
        reader.expect("BY")
        reader.name("a column")
        while not reader.at(",", "DESCRIPTOR") and reader.take(","):
            reader.name("a column")
    reader.expect(",", "DESCRIPTOR", "(", hint=_FROM)
    time = Name(reader.name("the time column"), position=reader.position)
    reader.expect(")")
    args: list[Node] = [time]
    while reader.take(","):
        args.append(reader.expression())
    reader.expect(")", ")")
    return stream, Apply(function, tuple(args), position=start)


#: A row is counted once per window that it lies in: more windows than this fill the memory with one epoch of rows.
MOST_WINDOWS = 20_000
_FROM = "FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10 seconds'))"


def take_window(select: Select) -> tuple[Select, Apply | None]:
    """The SELECT without its group window, and the window. Where SELECT or HAVING repeats the window, `window_start`
    takes its place."""
    of_source = [source for source in select.sources if source.group_window is not None]
    found = [node for node in select.group_by if isinstance(node, Apply) and node.function in SPELLINGS]
    found += [source.group_window for source in of_source if source.group_window is not None]
    if not found:
        return select, None
    window = found[0]
    if len(found) > 1:
        hint = "build one query on another"
        raise BindingProblem("a query has one group window", hint=hint, position=found[1].position)
    if of_source and not select.group_by and select.qualify is None and select.limit is None:
        raise BindingProblem(
            f"{window.function.upper()} in FROM needs GROUP BY {START}, {END}",
            hint="group windows say which rows form a group",
            position=window.position,
        )
    rest = tuple(node for node in select.group_by if node is not window and not _names_window(node))
    items = tuple(
        replace(i, value=_replaced(i.value, window)) if isinstance(i.value, Apply | Cast) else i for i in select.items
    )
    having = None if select.having is None else _replaced(select.having, window)
    return replace(select, group_by=rest, items=items, having=having), window


def _names_window(node: Node) -> bool:
    return isinstance(node, Name) and node.table is None and node.name.lower() in (START, END)


def _replaced(node: Node, window: Apply) -> Node:
    """The node with `window_start` where the group window is written."""
    if node == window:
        return Name(START, position=node.position)
    if isinstance(node, Apply):
        return replace(node, args=tuple(_replaced(a, window) for a in node.args))
    if isinstance(node, Cast):
        return replace(node, operand=_replaced(node.operand, window))
    return node


@dataclass(frozen=True)
class WindowKeys:
    """A group window, and the expressions that `window_start` and `window_end` stand for."""

    window: GroupWindow
    start: Expression
    end: Expression
    position: Position | None

    @property
    def names(self) -> dict[str, Expression]:
        return {START: self.start, END: self.end}


def bind_window(node: Apply, scope: Scope) -> WindowKeys:
    with located(node.position):
        span, step, start, end = _bound(node, scope)
        return WindowKeys(GroupWindow(node.function, span, step, None, None), start, end, node.position)


def _bound(node: Apply, scope: Scope) -> tuple[int, int, Expression, Expression]:
    """The span of a window, the step from one window of a row to the next, and its beginning and end."""
    kind = node.function
    hint = f"write {SPELLINGS[kind]}"
    least, most = {"tumble": (2, 3), "hop": (3, 3), "cumulate": (3, 3), "session": (2, 2)}[kind]
    if not least <= len(node.args) <= most:
        raise BindingProblem(f"{kind.upper()} does not take {len(node.args)} arguments", hint=hint)
    time = node.args[0]
    column = scope.column(time) if isinstance(time, Name) else None
    if column is None or not scope.is_event_time(column):
        raise BindingProblem(
            f"{kind.upper()} takes the event time of a stream",
            detail="a window is complete when the event time has passed it",
            hint=hint,
            position=time.position,
        )
    # An offset may be zero or negative.
    spans = [_span(argument, kind, least=1) for argument in node.args[1 : 2 if kind == "tumble" else 3]]
    if kind == "tumble":
        start = _bucket(column, spans[0], _offset(node.args[2], spans[0]) if len(node.args) == 3 else 0)
        return spans[0], spans[0], start, _later(start, spans[0])
    if kind == "session":
        if sum(not e.reference.is_table for e in scope.entries) > 1:
            detail = "sessions of combinations are not defined"
            raise BindingProblem("SESSION takes one stream", detail=detail, hint="build one query on another")
        return spans[0], 0, _bucket(column, 1, 0), _later(resolve_aggregate("max", column), spans[0])
    (step, span), word = spans, "slide" if kind == "hop" else "step"
    if span % step:
        raise BindingProblem(f"the span of {kind.upper()} is not a multiple of its {word}", hint=hint)
    if span // step > MOST_WINDOWS:
        raise Unsupported(
            f"a row of this {kind.upper()} lies in {'' if kind == 'hop' else 'up to '}{span // step:,} windows",
            detail=f"at most {MOST_WINDOWS:,}",
            hint=f"give it a longer {word}",
        )
    first = _bucket(column, step, 0)
    if kind == "hop":
        return span, step, first, _later(first, span)
    return span, step, _bucket(column, span, 0), _later(first, step)


def check_plain_window(keys: WindowKeys) -> None:
    """Refuse a window of FROM, for rows that are ranked, in which a row may lie in several windows."""
    if keys.window.kind != "tumble":
        raise BindingProblem(
            f"{keys.window.kind.upper()} in FROM needs GROUP BY {START}, {END}",
            detail="a row lies in several windows, or the rows around it decide",
            hint="rows can be ranked in the windows of TUMBLE",
            position=keys.position,
        )


def add_keys(
    keys: WindowKeys, group_by: tuple[Expression, ...], used: list[Expression]
) -> tuple[GroupWindow, tuple[Expression, ...]]:
    """The window and all grouping expressions: those of the window that outputs and HAVING use come first."""
    kind = keys.window.kind
    starts = any(_mentions(e, keys.start, keys.end) for e in used)
    ends = any(_mentions(e, keys.end, None) for e in used)
    if not starts and not ends:
        raise BindingProblem(
            f"the window of {kind.upper()} is not selected",
            detail="a result has to say which group it is about",
            hint=f"add {START} or {END} to SELECT",
            position=keys.position,
        )
    if kind == "cumulate" and not ends:
        raise BindingProblem(
            f"CUMULATE needs {END}",
            detail="several of its windows have one beginning",
            hint=f"add {END} to SELECT",
            position=keys.position,
        )
    if kind == "session":
        return replace(keys.window, start=0), (keys.start, *group_by)
    chosen = ((keys.start,) if starts else ()) + ((keys.end,) if ends else ())
    window = replace(keys.window, start=0 if starts else None, end=len(chosen) - 1 if ends else None)
    return window, (*chosen, *group_by)


def _mentions(e: Expression, target: Expression, hidden: Expression | None) -> bool:
    """Whether an expression holds another one outside of `hidden`."""
    if e == target:
        return True
    if e == hidden:
        return False
    return any(_mentions(part, target, hidden) for part in children(e))


def _span(node: Node, kind: str, least: int) -> int:
    with located(node.position):
        if not isinstance(node, Constant) or node.kind not in ("string", "interval"):
            raise BindingProblem(f"{kind.upper()} takes spans of time", hint=f"write {SPELLINGS[kind]}")
        found = parse_span(str(node.value))
        if found < least:
            raise BindingProblem(f"{kind.upper()} takes spans longer than zero", hint=f"write {SPELLINGS[kind]}")
        return found


def _offset(node: Node, span: int) -> int:
    """The offset of windows of that span. A negative offset becomes the one that is later by whole spans."""
    minus = isinstance(node, Apply) and node.function == "neg" and len(node.args) == 1
    inner = node.args[0] if isinstance(node, Apply) and minus else node
    text = str(inner.value).lstrip() if isinstance(inner, Constant) and inner.kind in ("string", "interval") else ""
    if isinstance(inner, Constant) and text.startswith("-"):
        inner, minus = replace(inner, value=text[1:]), not minus
    found = _span(inner, "tumble", least=0)
    return -found % span if minus else found


def _bucket(column: Expression, span: int, offset: int) -> Expression:
    return resolve("tumble_start", (column, Literal(span, INTERVAL), Literal(offset, INTERVAL)))


def _later(e: Expression, span: int) -> Expression:
    return resolve("+", (e, Literal(span, INTERVAL)))
