"""Syntax tree back to text.

Answer   `render(statement)` is a text that parses to the same statement. Equal statements have equal texts.
Limits   Comments, blanks and the case of keywords are not kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from eddyline.language import syntax
from eddyline.language.syntax import Apply, Body, Cast, Constant, Item, Name, Node, Over, Select, Statement
from eddyline.language.text.reader import RESERVED
from eddyline.model.patterns.constraint import Rule
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
        case Select() | syntax.Union() | syntax.Event():
            return _body(statement)
        case syntax.CreateDerived(name, body, options):
            return f"CREATE STREAM {_name(name)}{_options(options)} AS {_body(body)}"
        case syntax.CreateStream(name, columns, options) | syntax.CreateTable(name, columns, options):
            kind = "STREAM" if isinstance(statement, syntax.CreateStream) else "TABLE"
            return f"CREATE {kind} {_name(name)} ({_columns(columns)}){_options(options)}"
        case syntax.CreateQuery(name, body, options) | syntax.CreateTemplate(name, body, options):
            kind = "QUERY" if isinstance(statement, syntax.CreateQuery) else "TEMPLATE"
            return f"CREATE {kind} {_name(name)}{_options(options)} AS {_body(body)}"
        case syntax.CreateConstraints():
            return _constraints(statement)
        case syntax.CreateFunction(name, arguments, result, target, options):
            code = f" AS {_value(target)}" if target else ""
            return f"CREATE FUNCTION {_name(name)}({_columns(arguments)}) RETURNS {result}{code}{_options(options)}"
        case syntax.CreatePunctuation(name, stream, names, source, source_names, at):
            place = "" if at is None else f" AT {_name(at)}"
            given = f"{_name(source)} ({_names(source_names)}){place}"
            return f"CREATE PUNCTUATION {_name(name)} ON {_name(stream)} ({_names(names)}) FROM {given}"
        case syntax.Punctuate(stream, where, instant):
            return f"PUNCTUATE {_name(stream)}{_clause('WHERE', where)}{_clause('AT', instant)}"
        case syntax.HeraldStatement(stream, where, rows, micros, instant):
            span = f"{rows} ROWS" if rows is not None else span_text(micros or 0)
            return f"HERALD {_name(stream)}{_clause('WHERE', where)} FOR {span}{_clause('AT', instant)}"
        case syntax.CreateSink(name, query, options):
            return f"CREATE SINK {_name(name)} FOR {'ALL' if query is None else _name(query)}{_options(options)}"
        case syntax.CreateRequests(name, columns, template, options):
            return f"CREATE REQUESTS {_name(name)} ({_columns(columns)}) FOR {_name(template)}{_options(options)}"
        case syntax.RequestStatement():
            return f"REQUEST {_request(statement)}"
        case syntax.Drop(kind, name):
            return f"DROP {kind.upper()} {_name(name)}"
        case syntax.Set(name, value):
            return f"SET {_dotted(name)} = {_value(value)}"
        case syntax.Explain(target, analyze, kind):
            shown = _name(target) if isinstance(target, str) else render(target)
            named = "TEMPLATE " if isinstance(target, str) and kind == "template" else ""
            return f"EXPLAIN {'ANALYZE ' if analyze else ''}{named}{shown}"
    raise TypeError(type(statement))


def _columns(columns: tuple[syntax.ColumnDefinition, ...]) -> str:
    return ", ".join(f"{_name(c.name)} {c.type}" for c in columns)


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(map(_name, names))


def _listed(nodes: Iterable[Node]) -> str:
    return ", ".join(map(render_expression, nodes))


def _clause(words: str, node: Node | None) -> str:
    """A clause of one expression, with a blank before it; nothing where there is none."""
    return "" if node is None else f" {words} {render_expression(node)}"


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
        return f"{_apply(replace(node, where=None))} FILTER ({_clause('WHERE', node.where).lstrip()})"
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
        return f"{_operand(args[0])} IN ({_listed(args[1:])})"
    if function == "case":
        pairs = zip(args[0:-1:2], args[1:-1:2], strict=True)
        branches = "".join(f"{_clause('WHEN', condition)}{_clause('THEN', value)}" for condition, value in pairs)
        return f"CASE{branches}{_clause('ELSE', args[-1])} END"
    return f"{function}({'*' if node.star else 'DISTINCT ' * node.distinct + _listed(args)})"


def _operand(node: Node) -> str:
    """An operand. It is in parentheses where a neighbouring operator could otherwise take a part of it."""
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


#: The text between a source and those before it, by `FromEntry.join`; of other joins it is their name and JOIN.
_JOINS = {",": ", ", "INNER": " JOIN ", "LATEST": " JOIN LATEST ", "LEFT LATEST": " LEFT JOIN LATEST "}


def _select(select: Select) -> str:
    text = f"SELECT {'DISTINCT ' * select.distinct}{_items(select.items)} FROM {_source(select.sources[0])}"
    for source in select.sources[1:]:
        text += _JOINS.get(source.join, f" {source.join} JOIN ") + _source(source)
    conditions = [] if select.where is None else [render_expression(select.where)]
    if conditions and select.exists:
        conditions = [f"({conditions[0]})"]
    conditions += [f"{'NOT ' * one.negated}EXISTS ({_select(one.select)})" for one in select.exists]
    text += f" WHERE {' AND '.join(conditions)}" if conditions else ""
    text += f" GROUP BY {_listed(select.group_by)}" if select.group_by else ""
    text += _clause("HAVING", select.having) + _clause("QUALIFY", select.qualify)
    text += "" if select.limit is None else f" ORDER BY {_ordering(select.order_by)} LIMIT {select.limit}"
    return text + ("" if select.emit is None else f" EMIT {select.emit}")


def _over(node: Over) -> str:
    partition = f"PARTITION BY {_listed(node.partition)}" if node.partition else ""
    order = f"ORDER BY {_ordering(node.order)}" if node.order else ""
    return f"{node.function}({_listed(node.args)}) OVER ({' '.join(filter(None, (partition, order)))})"


def _ordering(order: tuple[syntax.Ordered, ...]) -> str:
    return ", ".join(
        f"{render_expression(o.value)}{' DESC' * o.descending}{' NULLS FIRST' * o.nulls_first}" for o in order
    )


def _request(request: syntax.RequestStatement) -> str:
    text = f"{_listed(request.items) or '*'} FROM {_name(request.template)}"
    text += "" if request.window is None else f" [{request.window}]"
    text += _clause("WHERE", request.where)
    text += "" if request.group_by is None else f" GROUP BY {_listed(request.group_by) or '()'}"
    return text + _clause("AS OF", request.as_of)


def _body(body: Body) -> str:
    if isinstance(body, syntax.Event):
        text = f"EVENT {_event(body.expression)} FROM {_book(body.book)}{_clause('WHERE', body.where)}"
        text += "" if body.within is None else f" WITHIN {span_text(body.within)}"
        text += " FIRST MATCH" * body.first
        return text + ("" if body.items is None else f" RETURN {_items(body.items)}")
    named = ", ".join(f"{_name(name)} AS ({_body(inner)})" for name, inner in body.named)
    selects = body.parts if isinstance(body, syntax.Union) else (body,)
    return (f"WITH {named} " if named else "") + " UNION ALL ".join(map(_select, selects))


def _event(node: syntax.EventNode) -> str:
    if not isinstance(node, syntax.EventLeaf):
        return f"{node.operator}({', '.join(map(_event, node.members))})"
    text = _name(str(node.type)) if node.bare else _value(node.type)
    text += "" if node.condition is None else f"[{render_expression(node.condition)}]"
    return text + ("" if node.alias is None else f" {_name(node.alias)}")


def _book(book: syntax.BookClause) -> str:
    by = f" PARTITION BY {_names(book.partition)}" if book.partition else ""
    return f"{_name(book.stream)} TYPE {_name(book.type)}{by}"


def _constraints(statement: syntax.CreateConstraints) -> str:
    head = f"CREATE CONSTRAINTS {_name(statement.name)} ON {_book(statement.book)}"
    if statement.workflow is not None:
        return f"{head} FROM WORKFLOW {_quoted(statement.workflow)}{_options(statement.options)}"
    return f"{head} ({', '.join(map(render_rule, statement.rules))})"


def render_rule(rule: Rule) -> str:
    """A constraint as a statement has it; a type that is a keyword is written in quotes."""
    return rule.text(lambda kind: kind if isinstance(kind, str) and _name(kind) == kind else _value(kind))


def _items(items: tuple[Item, ...]) -> str:
    return ", ".join(map(_item, items))


def _item(item: Item) -> str:
    if isinstance(item.value, syntax.Star):
        return "*" if item.value.table is None else f"{_name(item.value.table)}.*"
    return render_expression(item.value) + ("" if item.alias is None else f" AS {_name(item.alias)}")


def _source(source: syntax.FromEntry) -> str:
    on = _clause("ON", source.on)
    if source.unnest is not None:
        column = "" if source.alias is None else f"({_name(source.alias)})"
        return f"UNNEST({render_expression(source.unnest)}) AS {_name(source.name)}{column}{on}"
    text = _name(source.name) if source.query is None else f"({_body(source.query)})"
    if (made := source.group_window) is not None:
        descriptor = f"DESCRIPTOR({render_expression(made.args[0])})"
        spans = "".join(f", {render_expression(a)}" for a in made.args[1:])
        text = f"TABLE({made.function.upper()}(TABLE {text}, {descriptor}{spans}))"
    text += "" if source.window is None else f" [{_window(source.window)}]"
    return text + ("" if source.alias is None else f" AS {_name(source.alias)}") + on


def _window(window: Window) -> str:
    if isinstance(window, PartitionedRows):
        return str(replace(window, columns=tuple(_name(column) for column in window.columns)))
    return str(window)


def _options(options: tuple[syntax.WithOption, ...]) -> str:
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
