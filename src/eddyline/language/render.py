"""Syntax tree back to text.

Answer   `render(statement)` is a text that parses to the same statement; one form per statement.
Limits   Comments, spaces and the spelling of words are not kept.
"""

from __future__ import annotations

from dataclasses import replace

from eddyline.language.syntax import (
    Apply,
    Body,
    BookClause,
    Cast,
    Constant,
    CreateConstraints,
    CreateDerived,
    CreateFunction,
    CreatePunctuation,
    CreateQuery,
    CreateRequests,
    CreateSink,
    CreateStream,
    CreateTable,
    CreateTemplate,
    Drop,
    Event,
    EventLeaf,
    EventNode,
    Explain,
    FromEntry,
    HeraldStatement,
    Item,
    Name,
    Node,
    Ordered,
    Over,
    Punctuate,
    RequestStatement,
    Select,
    Set,
    Star,
    Statement,
    Union,
    WithOption,
)
from eddyline.language.text.reader import RESERVED
from eddyline.model.patterns.constraint import EventType, Rule
from eddyline.model.window import PartitionedRows, Window, span_text
from eddyline.settings import EXPERIMENT, Value

_INFIX = {name: name for name in ("+", "-", "*", "/", "//", "%", "=", "<>", "<", "<=", ">", ">=", "||")} | {
    "and": "AND",
    "or": "OR",
    "like": "LIKE",
    "ilike": "ILIKE",
    "is_not_distinct": "IS NOT DISTINCT FROM",
}


def render(statement: Statement) -> str:
    """The statement as text, without a semicolon.

    >>> from eddyline.language.parse import parse_script
    >>> render(parse_script("select x from s[rows 3] t")[0])
    'SELECT x FROM s [ROWS 3] AS t'
    """
    match statement:
        case Select() | Union() | Event():
            return _body(statement)
        case CreateDerived(name, body, options):
            return f"CREATE STREAM {_name(name)}{_options(options)} AS {_body(body)}"
        case CreateStream(name, columns, options) | CreateTable(name, columns, options):
            kind = "STREAM" if isinstance(statement, CreateStream) else "TABLE"
            listed = ", ".join(f"{_name(c.name)} {c.type}" for c in columns)
            return f"CREATE {kind} {_name(name)} ({listed}){_options(options)}"
        case CreateQuery(name, select, options):
            return f"CREATE QUERY {_name(name)}{_options(options)} AS {_body(select)}"
        case CreateConstraints():
            return _constraints(statement)
        case CreateFunction(name, arguments, result, target, options):
            listed = ", ".join(f"{_name(a.name)} {a.type}" for a in arguments)
            code = f" AS {_value(target)}" if target else ""
            return f"CREATE FUNCTION {_name(name)}({listed}) RETURNS {result}{code}{_options(options)}"
        case CreatePunctuation():
            return _punctuation(statement)
        case Punctuate(stream, where, at):
            return f"PUNCTUATE {_name(stream)} WHERE {render_expression(where)} AT {render_expression(at)}"
        case HeraldStatement(stream, where, rows, micros, at):
            span = f"{rows} ROWS" if rows is not None else span_text(micros or 0)
            return f"HERALD {_name(stream)} WHERE {render_expression(where)} FOR {span} AT {render_expression(at)}"
        case CreateSink(name, query, options):
            return f"CREATE SINK {_name(name)} FOR {'ALL' if query is None else _name(query)}{_options(options)}"
        case CreateTemplate(name, select, options):
            return f"CREATE TEMPLATE {_name(name)}{_options(options)} AS {_select(select)}"
        case CreateRequests(name, columns, template, options):
            listed = ", ".join(f"{_name(c.name)} {c.type}" for c in columns)
            return f"CREATE REQUESTS {_name(name)} ({listed}) FOR {_name(template)}{_options(options)}"
        case RequestStatement():
            return f"REQUEST {_request(statement)}"
        case Drop(kind, name):
            return f"DROP {kind.upper()} {_name(name)}"
        case Set(name, value):
            return f"SET {_dotted(name)} = {_value(value)}"
        case Explain(target, analyze, kind):
            shown = _name(target) if isinstance(target, str) else render(target)
            named = "TEMPLATE " if isinstance(target, str) and kind == "template" else ""
            return f"EXPLAIN {'ANALYZE ' if analyze else ''}{named}{shown}"


def _punctuation(statement: CreatePunctuation) -> str:
    listed = [", ".join(map(_name, names)) for names in (statement.columns, statement.source_columns)]
    at = "" if statement.at is None else f" AT {_name(statement.at)}"
    about = f"ON {_name(statement.stream)} ({listed[0]}) FROM {_name(statement.source)} ({listed[1]}){at}"
    return f"CREATE PUNCTUATION {_name(statement.name)} {about}"


def render_expression(node: Node) -> str:
    """The expression as text.

    >>> from eddyline.language.parse import parse_expression
    >>> render_expression(parse_expression("x between 1 and 2"))
    '(x >= 1) AND (x <= 2)'
    """
    match node:
        case Name(name, table):
            return _name(name) if table is None else f"{_name(table)}.{_name(name)}"
        case Constant():
            return _constant(node)
        case Over():
            return _over(node)
        case Cast(operand, kind):
            return f"CAST({render_expression(operand)} AS {kind})"
        case Apply():
            return _apply(node)


def _apply(node: Apply) -> str:
    function, args = node.function, node.args
    if node.where is not None:
        return f"{_apply(replace(node, where=None))} FILTER (WHERE {render_expression(node.where)})"
    if function in _INFIX and len(args) == 2:
        # A chain of ANDs is read from the left, so its left part needs no parentheses, however long it is.
        chained = function in ("and", "or") and isinstance(args[0], Apply) and args[0].function == function
        left = render_expression(args[0]) if chained else _operand(args[0])
        return f"{left} {_INFIX[function]} {_operand(args[1])}"
    if function == "not":
        return f"NOT {_operand(args[0])}"
    if function == "neg":
        return f"-{_operand(args[0])}"
    if function in ("is_null", "is_not_null"):
        return f"{_operand(args[0])} IS {'NOT ' if function == 'is_not_null' else ''}NULL"
    if function == "in":
        return f"{_operand(args[0])} IN ({', '.join(render_expression(a) for a in args[1:])})"
    if function == "case":
        branches = [
            f"WHEN {render_expression(c)} THEN {render_expression(v)}"
            for c, v in zip(args[0:-1:2], args[1:-1:2], strict=True)
        ]
        return f"CASE {' '.join(branches)} ELSE {render_expression(args[-1])} END"
    inside = (
        "*" if node.star else ("DISTINCT " if node.distinct else "") + ", ".join(render_expression(a) for a in args)
    )
    return f"{function}({inside})"


def _operand(node: Node) -> str:
    """An operand, in parentheses unless nothing could tear it apart."""
    text = render_expression(node)
    if isinstance(node, Name | Cast | Over):
        return text
    if isinstance(node, Constant):
        return f"({text})" if text.startswith("-") else text
    plain = node.function not in _INFIX and node.function not in ("not", "neg", "is_null", "is_not_null", "in", "case")
    return text if plain else f"({text})"


def _constant(node: Constant) -> str:
    if node.kind == "null":
        return "NULL"
    if node.kind == "boolean":
        return "TRUE" if node.value else "FALSE"
    if node.kind in ("integer", "double"):
        return repr(node.value)
    if isinstance(node.value, tuple):
        return ", ".join(map(_quoted if node.kind == "strings" else repr, node.value))
    return ("" if node.kind == "string" else f"{node.kind.upper()} ") + _quoted(str(node.value))


#: How a source is tied to those before it; others are written as they are called.
_JOINS = {",": ", ", "INNER": " JOIN ", "LATEST": " JOIN LATEST ", "LEFT LATEST": " LEFT JOIN LATEST "}


def _select(select: Select) -> str:
    parts = ["SELECT DISTINCT" if select.distinct else "SELECT", ", ".join(_item(i) for i in select.items), "FROM"]
    sources = _source(select.sources[0])
    for source in select.sources[1:]:
        sources += _JOINS.get(source.join, f" {source.join} JOIN ") + _source(source)
    parts.append(sources)
    conditions = [] if select.where is None else [render_expression(select.where)]
    if conditions and select.exists:
        conditions = [f"({conditions[0]})"]
    conditions += [f"{'NOT ' if one.negated else ''}EXISTS ({_select(one.select)})" for one in select.exists]
    if conditions:
        parts.append(f"WHERE {' AND '.join(conditions)}")
    if select.group_by:
        parts.append(f"GROUP BY {', '.join(render_expression(g) for g in select.group_by)}")
    if select.having is not None:
        parts.append(f"HAVING {render_expression(select.having)}")
    if select.qualify is not None:
        parts.append(f"QUALIFY {render_expression(select.qualify)}")
    if select.limit is not None:
        parts.append(f"ORDER BY {_ordering(select.order_by)} LIMIT {select.limit}")
    if select.emit is not None:
        parts.append(f"EMIT {select.emit}")
    return " ".join(parts)


def _over(node: Over) -> str:
    partition = f"PARTITION BY {', '.join(render_expression(p) for p in node.partition)}" if node.partition else ""
    order = f"ORDER BY {_ordering(node.order)}" if node.order else ""
    return f"{node.function}({', '.join(render_expression(a) for a in node.args)}) OVER ({' '.join(filter(None, (partition, order)))})"


def _ordering(order: tuple[Ordered, ...]) -> str:
    return ", ".join(
        f"{render_expression(o.value)}{' DESC' * o.descending}{' NULLS FIRST' * o.nulls_first}" for o in order
    )


def _request(request: RequestStatement) -> str:
    parts = [", ".join(_name(n.name) for n in request.items) or "*", "FROM", _name(request.template)]
    if request.window is not None:
        parts.append(f"[{request.window}]")
    if request.where is not None:
        parts.append(f"WHERE {render_expression(request.where)}")
    if request.group_by is not None:
        parts.append(f"GROUP BY {', '.join(_name(n.name) for n in request.group_by) or '()'}")
    if request.as_of is not None:
        parts.append(f"AS OF {_constant(request.as_of)}")
    return " ".join(parts)


def _body(body: Body) -> str:
    if isinstance(body, Select | Union):
        named = ", ".join(f"{_name(name)} AS ({_body(inner)})" for name, inner in body.named)
        selects = body.parts if isinstance(body, Union) else (body,)
        return (f"WITH {named} " if named else "") + " UNION ALL ".join(_select(select) for select in selects)
    parts = [f"EVENT {_event(body.expression)} FROM {_book(body.book)}"]
    if body.where is not None:
        parts.append(f"WHERE {render_expression(body.where)}")
    if body.within is not None:
        parts.append(f"WITHIN {span_text(body.within)}")
    if body.first:
        parts.append("FIRST MATCH")
    if body.items is not None:
        parts.append(f"RETURN {', '.join(_item(i) for i in body.items)}")
    return " ".join(parts)


def _event(node: EventNode) -> str:
    if not isinstance(node, EventLeaf):
        return f"{node.operator}({', '.join(_event(m) for m in node.members)})"
    text = _name(str(node.type)) if node.bare else _value(node.type)
    text += "" if node.condition is None else f"[{render_expression(node.condition)}]"
    return text + ("" if node.alias is None else f" {_name(node.alias)}")


def _book(book: BookClause) -> str:
    by = f" PARTITION BY {', '.join(_name(c) for c in book.partition)}" if book.partition else ""
    return f"{_name(book.stream)} TYPE {_name(book.type)}{by}"


def _constraints(statement: CreateConstraints) -> str:
    head = f"CREATE CONSTRAINTS {_name(statement.name)} ON {_book(statement.book)}"
    if statement.workflow is not None:
        return f"{head} FROM WORKFLOW {_quoted(statement.workflow)}{_options(statement.options)}"
    return f"{head} ({', '.join(map(render_rule, statement.rules))})"


def render_rule(rule: Rule) -> str:
    """A constraint as a statement has it; a type that is a keyword is written in quotes."""
    return rule.text(_type)


def _type(value: EventType) -> str:
    if isinstance(value, str) and not _name(value).startswith('"'):
        return value
    return _value(value)


def _item(item: Item) -> str:
    if isinstance(item.value, Star):
        return "*" if item.value.table is None else f"{_name(item.value.table)}.*"
    return render_expression(item.value) + ("" if item.alias is None else f" AS {_name(item.alias)}")


def _source(source: FromEntry) -> str:
    if source.unnest is not None:
        column = "" if source.alias is None else f"({_name(source.alias)})"
        on = "" if source.on is None else f" ON {render_expression(source.on)}"
        return f"UNNEST({render_expression(source.unnest)}) AS {_name(source.name)}{column}{on}"
    text = _name(source.name) if source.query is None else f"({_body(source.query)})"
    if (made := source.group_window) is not None:
        args = "".join(f", {render_expression(a)}" for a in made.args[1:])
        text = f"TABLE({made.function.upper()}(TABLE {text}, DESCRIPTOR({render_expression(made.args[0])}){args}))"
    text += "" if source.window is None else f" [{_window(source.window)}]"
    text += "" if source.alias is None else f" AS {_name(source.alias)}"
    return text + ("" if source.on is None else f" ON {render_expression(source.on)}")


def _window(window: Window) -> str:
    if isinstance(window, PartitionedRows):
        return str(replace(window, columns=tuple(_name(column) for column in window.columns)))
    return str(window)


def _options(options: tuple[WithOption, ...]) -> str:
    return f" WITH ({', '.join(f'{_dotted(o.name)} = {_value(o.value)}' for o in options)})" if options else ""


def _dotted(name: str) -> str:
    length = len(EXPERIMENT) if name.lower().startswith(EXPERIMENT) else 0
    return name[:length] + _name(name[length:])


def _value(value: Value) -> str:
    return _quoted(value) if isinstance(value, str) else repr(value)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _name(name: str) -> str:
    plain = name.isidentifier() and name.isascii() and name.upper() not in RESERVED
    return name if plain else '"' + name.replace('"', '""') + '"'
