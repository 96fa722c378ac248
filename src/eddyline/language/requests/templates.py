"""Templates, streams of requests and requests, bound.

Answer   `bind_template`, `bind_requests` and `bind_request` check what a statement says against the catalog and give the
         model's `Template`, `RequestStream` and `Request`.
Limits   A template reads one stream with RANGE or ROWS. A condition of a request compares one grouping column with
         literals.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from eddyline.errors import BindingProblem, Position, located
from eddyline.language.binding.bind import bind_query
from eddyline.language.binding.columns import column_of, no_option
from eddyline.language.binding.declare import STREAM_OPTIONS, bind_stream
from eddyline.language.binding.expressions import Clause, bind_condition, bind_constant
from eddyline.language.binding.scope import Scope, ScopeEntry
from eddyline.language.catalog import Catalog, suggestion
from eddyline.language.syntax import (
    Apply,
    CreateRequests,
    CreateStream,
    CreateTemplate,
    Name,
    RequestStatement,
    WithOption,
)
from eddyline.language.text.windows import parse_span
from eddyline.model.datatypes import BIGINT, FIRST_ABOVE, INT, STRING
from eddyline.model.expressions.arranged import IN_ORDER
from eddyline.model.expressions.coercion import exact_decimal
from eddyline.model.expressions.expression import (
    Aggregate,
    Call,
    ColumnRef,
    Expression,
    Literal,
    columns_of,
    conjuncts,
    has_aggregate,
    in_values,
    spelled_out,
    walk,
)
from eddyline.model.query import Reference
from eddyline.model.schema import Column, Schema, Stream, Table
from eddyline.model.template import MOST_BITS, Request, RequestCondition, RequestStream, Template, window_size
from eddyline.model.window import Range, Rows
from eddyline.settings import Settings

_OPTIONS = ("bits", "index", "history")
_STREAM = "FROM stream [RANGE 60 MINUTES]"
_ROLES = ("window", "group_by", "aggregates")
_COMPARISONS = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "<>": "<>"}


# -- templates


def bind_template(statement: CreateTemplate, settings: Settings, catalog: Catalog) -> Template:
    """The template that a statement declares; it is not yet in the catalog."""
    catalog.check_free("template", statement.name)
    select, source = statement.select, statement.select.sources[0].position
    nested = bool(select.named) or any(source.query is not None for source in select.sources)
    _refuse(select.distinct, "has no DISTINCT", "GROUP BY says what is grouped", select.position)
    _refuse(select.having is not None, "has no HAVING", "a request is answered with all its groups", select.position)
    _refuse(select.emit is not None, "has no EMIT", "a template answers when it is asked", select.position)
    _refuse(nested, "reads one stream", _STREAM, source)
    query = bind_query(statement.name, select, settings, catalog)
    first = query.references[0]
    made = first.derived or query.group_window is not None
    _refuse(made, "reads a stream that rows come from, without group windows", _STREAM, source)
    _refuse(len(query.references) != 1 or first.is_table, "reads one stream", _STREAM, source)
    _refuse(not isinstance(first.window, Range | Rows), "needs a window", f"{_STREAM}, or [ROWS 1000]", source)
    _refuse(not query.group_by, "needs GROUP BY", "requests fix and choose grouping columns", select.position)
    for output, item in zip(query.outputs, select.items, strict=False):
        if output.expression not in query.group_by and _reads_group(output.expression, query.group_by):
            raise BindingProblem(
                f"output {output.name} mixes a grouping column with an aggregate",
                hint="a template lists grouping columns and aggregates apart: a request may leave a grouping column out",
                position=item.position,
            )
        if any(isinstance(x, Aggregate) and x.function in IN_ORDER for x in walk(output.expression)):
            raise BindingProblem(
                f"output {output.name} puts values in the order of rows, which a template does not keep",
                hint="CREATE QUERY … AS SELECT … GROUP BY … keeps it",
                position=item.position,
            )
    template = Template(statement.name, query, **_template_options(statement.options, settings))
    _check_index(template, next((o.position for o in statement.options if o.name == "index"), statement.position))
    return template


def _refuse(present: bool, what: str, hint: str, position: Position | None) -> None:
    """Refuse a template in which something is `present` that none can have."""
    if present:
        raise BindingProblem(f"a template {what}", hint=hint, position=position)


def _reads_group(e: Expression, groups: tuple[Expression, ...]) -> bool:
    if e in groups:
        return True
    if not has_aggregate(e):
        # A constant belongs to no group.
        return bool(columns_of(e)) or isinstance(e, Literal)
    return any(_reads_group(a, groups) for a in e.args if not isinstance(a, Literal)) if isinstance(e, Call) else False


def _check_index(template: Template, position: Position | None) -> None:
    """Refuse an index over other grouping columns than the template has."""
    kind, _, inside = template.index.partition("(")
    parts = [part.strip() for part in inside.rstrip(")").split(",")] if inside else []
    names = [key.name for key in template.keys]
    if kind == "imp" and parts and len(parts) != len(names):
        raise BindingProblem(
            f"index {template.index} does not fit template {template.name}",
            detail=f"it shares bits out over {len(parts)} columns, and the template groups by {', '.join(names)}",
            hint=f"one number of bits per grouping column: imp({', '.join('4' for _ in names)})",
            position=position,
        )
    if kind == "imp" and sum(map(int, parts)) > MOST_BITS:
        raise BindingProblem(
            f"index {template.index} has {sum(map(int, parts))} bits",
            hint=f"at most {MOST_BITS} bits together",
            position=position,
        )
    for name in parts if kind == "hash" else ():
        if template.key(name) is None:
            raise BindingProblem(
                f"index {template.index} names {name}",
                detail=f"template {template.name} groups by {', '.join(names)}",
                hint=suggestion(name, names) or "a hash is over grouping columns",
                position=position,
            )


def _template_options(options: tuple[WithOption, ...], settings: Settings) -> dict[str, Any]:
    found: dict[str, Any] = {"index": settings.template_index}
    for option in options:
        if option.name not in _OPTIONS:
            raise no_option("a template has", option, _OPTIONS)
        if option.name == "bits":
            if not isinstance(option.value, int) or not 0 <= option.value <= MOST_BITS:
                raise BindingProblem(
                    f"bits cannot be {option.value}",
                    hint=f"a whole number from 0 to {MOST_BITS}",
                    position=option.position,
                )
            found["bits"] = option.value
        elif option.name == "history":
            found["history"] = parse_span(str(option.value), option.position)
        else:
            with located(option.position):
                found["index"] = settings.with_option("template_index", option.value).template_index
    return found


# -- streams of requests


def bind_requests(statement: CreateRequests, catalog: Catalog) -> RequestStream:
    """The stream of requests that a statement declares; it is not yet in the catalog."""
    template = catalog.template(statement.template)
    roles = {o.name: o for o in statement.options if o.name in _ROLES}
    rest = tuple(o for o in statement.options if o.name not in _ROLES)
    for option in rest:
        if option.name not in STREAM_OPTIONS and not option.name.startswith("distinct_"):
            raise no_option("a stream of requests has", option, (*_ROLES, *STREAM_OPTIONS))
    stream = bind_stream(CreateStream(statement.name, statement.columns, rest, position=statement.position), catalog)
    return request_stream(stream, template, {name: (str(o.value), o.position) for name, o in roles.items()})


def request_stream(stream: Stream, template: Template, roles: dict[str, tuple[str, Position | None]]) -> RequestStream:
    """A declared stream as requests to a template.

    Args:
        stream: The stream.
        template: The template that answers.
        roles: `window`, `group_by` and `aggregates` -> the column with that role, and where the text names it.
    """
    used: dict[str, str] = {}
    for role, (name, place) in roles.items():
        column = column_of(stream.name, stream.schema, name, place)
        wanted = (INT, BIGINT) if role == "window" else (STRING,)
        if column.type not in wanted:
            raise BindingProblem(
                f"column {column.name} cannot say the {role} of a request",
                detail=f"it is {column.type}",
                hint=f"declare it as {wanted[-1]}",
                position=place,
            )
        if column.name in used.values():
            raise BindingProblem(
                f"column {column.name} has two roles",
                hint=f"give the {role} of a request a column of its own",
                position=place,
            )
        used[role] = column.name
    parameters, carried = [], []
    outputs = {o.name.lower() for o in (*template.keys, *template.aggregates)}
    for column in stream.schema.columns:
        if column.name in used.values() or column.name == stream.time:
            continue
        key = template.key(column.name)
        if key is not None:
            if column.type != template.keys[key].type:
                raise BindingProblem(
                    f"parameter {column.name} is {column.type}",
                    detail=f"the grouping column of template {template.name} is {template.keys[key].type}",
                    hint=f"declare {column.name} {template.keys[key].type}",
                )
            parameters.append((column.name, key))
        elif column.name.lower() in outputs:
            raise BindingProblem(
                f"column {column.name} is named like an aggregate of template {template.name}",
                hint="give the column another name: results carry it along",
            )
        else:
            carried.append(column.name)
    window, group_by, aggregates = (used.get(role) for role in _ROLES)
    return RequestStream(stream, template, tuple(parameters), window, group_by, aggregates, tuple(carried))


# -- requests


def bind_request(request: RequestStatement, catalog: Catalog) -> Request:
    """The bound request of a REQUEST statement."""
    with located(request.position):
        return _request(request, catalog.template(request.template))


def _request(request: RequestStatement, template: Template) -> Request:
    group_by = (
        range(len(template.keys)) if request.group_by is None else [_key(name, template) for name in request.group_by]
    )
    if request.items:
        columns = tuple(_column(name, template, tuple(group_by)) for name in request.items)
        for place, name in enumerate(request.items):
            if columns[place] in columns[:place]:
                raise BindingProblem(
                    f"column {name.name} is asked for twice", hint="leave one of them out", position=name.position
                )
    else:
        columns = tuple((True, n) for n in group_by) + tuple((False, n) for n in range(len(template.aggregates)))
    as_of = None if request.as_of is None else bind_constant(request.as_of).value
    assert as_of is None or isinstance(as_of, int)
    return Request(
        template.name,
        columns,
        tuple(dict.fromkeys(group_by)),
        tuple(_conditions(request, template)),
        _window(request, template),
        as_of,
        request.text,
    )


def _key(name: Name, template: Template) -> int:
    key = template.key(name.name)
    if key is None:
        raise BindingProblem(
            f"template {template.name} does not group by {name.name}",
            detail=f"grouping columns are {', '.join(o.name for o in template.keys)}",
            hint=suggestion(name.name, [o.name for o in template.keys]),
            position=name.position,
        )
    return key


def _column(name: Name, template: Template, group_by: tuple[int, ...]) -> tuple[bool, int]:
    key, aggregate = template.key(name.name), template.aggregate(name.name)
    if aggregate is not None:
        return False, aggregate
    if key is None:
        known = [o.name for o in (*template.keys, *template.aggregates)]
        raise BindingProblem(
            f"template {template.name} lists no {name.name}",
            detail=f"it lists {', '.join(known)}",
            hint=suggestion(name.name, known) or "a request takes the aggregates that its template lists",
            position=name.position,
        )
    if key not in group_by:
        raise BindingProblem(
            f"column {template.keys[key].name} is not grouped by",
            detail=f"the request groups by {', '.join(template.keys[k].name for k in group_by) or '()'}",
            hint=f"add {template.keys[key].name} to GROUP BY, or leave it out",
            position=name.position,
        )
    return True, key


def _window(request: RequestStatement, template: Template) -> Range | Rows:
    whole, wanted = template.window, request.window
    if wanted is None:
        return whole
    if type(wanted) is not type(whole):
        detail = f"template {template.name} has [{whole}]"
        hint = "ask for a window of the same kind"
        raise BindingProblem(f"a request cannot have [{wanted}]", detail=detail, hint=hint)
    assert isinstance(wanted, Range | Rows)
    if window_size(wanted) > window_size(whole):
        raise BindingProblem(
            f"[{wanted}] is longer than the window of template {template.name}",
            detail=f"it keeps [{whole}]",
            hint=f"ask for [{whole}] or less, or create the template with a longer window",
        )
    return wanted


def _conditions(request: RequestStatement, template: Template) -> Iterator[RequestCondition]:
    if request.where is None:
        return
    _check_names(request.where, template)
    columns = tuple(Column(o.name, o.type) for o in template.keys)
    scope = Scope((ScopeEntry(Reference(template.name, template.name, None), Table(template.name, Schema(columns))),))
    bound = bind_condition(request.where, Clause("WHERE", scope))
    for part in conjuncts(bound):
        yield _condition(part, template, request.where.position)


def _check_names(node: object, template: Template) -> None:
    """Refuse a condition that names anything but grouping columns."""
    if isinstance(node, Name):
        _key(node, template)
    for arg in node.args if isinstance(node, Apply) else ():
        _check_names(arg, template)


def _check_literals(e: Expression, position: Position | None) -> None:
    """Refuse a comparison whose literal is no value of the column's type: the column is widened for it."""
    widened = [x.args[0].type for x in walk(e) if _is_widened(x)]  # type: ignore[union-attr]
    literals = [x for x in walk(spelled_out(e) if isinstance(e, Call) else e) if isinstance(x, Literal)]
    if not isinstance(e, Call) or e.function not in (*_COMPARISONS, "=", "in") or not widened or not literals:
        return
    most = FIRST_ABOVE.get(widened[0].name, 0)
    strange = [
        x
        for x in literals
        if not isinstance(x.value, int | float) or x.value != x.value // 1 or not -most <= x.value < most
    ]
    hints = {
        "DATE": "write it as DATE '2024-01-31'",
        "DECIMAL": "write it as a text in the form of its type, such as '0.50'",
    }
    raise BindingProblem(
        f"{(strange or literals)[0]} is not a {widened[0]}",
        hint=hints.get(widened[0].name, "write it as a number in the range of its type"),
        position=position,
    )


def _is_widened(e: Expression) -> bool:
    return isinstance(e, Call) and e.function == "cast" and isinstance(e.args[0], ColumnRef)


def _narrowed(e: Call) -> Call:
    """A comparison of a DECIMAL column with numbers that are values of its type, without widening the column."""
    kinds = [x.args[0].type for x in e.args if _is_widened(x)]  # type: ignore[union-attr]
    if (
        len(kinds) != 1
        or kinds[0].name != "DECIMAL"
        or not all(_is_widened(x) or isinstance(x, Literal) for x in e.args)
    ):
        return e
    found: list[Expression] = []
    for x in e.args:
        if not isinstance(x, Literal):
            found.append(x.args[0])  # type: ignore[union-attr]
            continue
        value = exact_decimal(x, kinds[0])
        if value is None:
            return e
        found.append(value)
    return Call(e.function, tuple(found), e.type)


def _condition(e: Expression, template: Template, position: Position | None) -> RequestCondition:
    found = _simple(e, template)
    if found is None:
        _check_literals(e, position)
        columns = {x.column for x in walk(e) if isinstance(x, ColumnRef)}
        crossed = isinstance(e, Call) and e.function == "or" and len(columns) > 1
        raise BindingProblem(
            "OR across columns is not supported in a request"
            if crossed
            else f"a request cannot have the condition {e}",
            detail="a request is a conjunction of conditions on one grouping column each",
            hint="send two requests" if crossed else "conditions are = IN IS NULL < <= > >= <> BETWEEN with literals",
            position=position,
        )
    return found


def _simple(e: Expression, template: Template) -> RequestCondition | None:
    if not isinstance(e, Call):
        return None
    if e.function == "is_null" and isinstance(e.args[0], ColumnRef):
        return RequestCondition(_number(e.args[0], template), "null")
    if e.function == "or":
        # x = 1 OR x = 2 is x IN (1, 2).
        parts = [_simple(a, template) for a in e.args]
        if all(p is not None and p.kind == "in" for p in parts) and len({p.key for p in parts if p is not None}) == 1:
            first = parts[0]
            assert first is not None
            return RequestCondition(first.key, "in", tuple(v for p in parts if p is not None for v in p.values))
        return None
    if e.function in (*_COMPARISONS, "=", "in") and not isinstance(e.args[0], ColumnRef):
        e = _narrowed(spelled_out(e))
    elif e.function in _COMPARISONS or e.function == "=":
        e = _narrowed(e)
    if e.function == "in" and isinstance(e.args[0], ColumnRef) and (listed := in_values(e)) is not None:
        return RequestCondition(_number(e.args[0], template), "in", tuple(listed))
    if len(e.args) == 2 and (e.function == "=" or e.function in _COMPARISONS):
        left, right = e.args
        function = e.function
        if isinstance(left, Literal) and isinstance(right, ColumnRef):
            left, right, function = right, left, _COMPARISONS.get(function, function)
        if isinstance(left, ColumnRef) and isinstance(right, Literal) and left.type == right.type:
            return RequestCondition(_number(left, template), "in" if function == "=" else function, (right.value,))
    return None


def _number(column: ColumnRef, template: Template) -> int:
    key = template.key(column.column)
    assert key is not None
    return key
