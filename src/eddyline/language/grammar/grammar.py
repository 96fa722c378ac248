"""The grammar of statements: which clauses there are, and in which order.

Answer   `read_statement` turns the tokens of one statement into its syntax tree. Clauses that SQL knows and we do not
         have are named when they are met, with what to write instead.
Limits   Expressions are read by `parse.py`, windows by `windows.py`; no name is looked up here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from eddyline.errors import Position, SyntaxProblem, Unsupported
from eddyline.language.binding.group_windows import read_table_function
from eddyline.language.derived.unnest import read_unnest
from eddyline.language.grammar.events import read_constraints, read_event
from eddyline.language.grammar.exists import read_where
from eddyline.language.grammar.ranking_text import read_limit
from eddyline.language.grammar.request_clauses import read_request, read_requests, read_template
from eddyline.language.own_functions import read_function
from eddyline.language.records.heralds import read_herald
from eddyline.language.records.punctuations import read_punctuate, read_punctuation
from eddyline.language.syntax import (
    Body,
    ColumnDefinition,
    CreateDerived,
    CreateQuery,
    CreateSink,
    CreateStream,
    CreateTable,
    Drop,
    Explain,
    FromEntry,
    Item,
    Node,
    RequestStatement,
    Select,
    Set,
    Star,
    Statement,
    Union,
    WithOption,
)
from eddyline.language.text.reader import RESERVED, StatementReader
from eddyline.language.text.type_text import read_type
from eddyline.language.text.windows import read_span, read_window
from eddyline.model.query import Emit

_STATEMENTS = "statements begin with CREATE, DROP, SET, EXPLAIN, REQUEST, PUNCTUATE, HERALD or SELECT"
_TWO_TABLES = "write the condition with JOIN … ON, or in WHERE"
#: What may be met where a clause could begin, and what to do instead.
_FOREIGN_CLAUSES = {
    "OFFSET": ("OFFSET", "a continuous query has no first row to count from"),
    "FETCH": ("FETCH", "a continuous query has no end; bound its windows instead"),
    "INTERSECT": ("INTERSECT", "write it as a join"),
    "EXCEPT": ("EXCEPT", "there is no difference of streams"),
    "WINDOW": ("WINDOW", "windows stand in FROM: bids [RANGE 10 MINUTES]"),
    "OUTER": ("OUTER JOIN", "LEFT, RIGHT or FULL [OUTER] JOIN … ON"),
    "NATURAL": ("NATURAL JOIN", _TWO_TABLES),
    "SEMI": ("SEMI JOIN", "WHERE EXISTS (SELECT …)"),
    "ANTI": ("ANTI JOIN", "WHERE NOT EXISTS (SELECT …)"),
    "ASOF": ("ASOF JOIN", "orders [NOW], rates [PARTITION BY currency ROWS 1]"),
    "USING": ("USING", _TWO_TABLES),
    "TABLESAMPLE": ("TABLESAMPLE", "there is no sampling"),
    "INTO": ("INTO", "CREATE QUERY names a query, CREATE SINK says where its results go"),
    "FOR": ("FOR", "the row that is valid at the time of another: orders [NOW], rates [PARTITION BY currency ROWS 1]"),
}


def read_statement(reader: StatementReader) -> Statement:
    return ended(reader, _statement(reader, reader.position))


def ended(reader: StatementReader, statement: Statement) -> Statement:
    if reader.next.kind != "end":
        _refuse_foreign_clause(reader)
        reader.fail("expected ; or the end")
    return statement


def _statement(reader: StatementReader, start: Position) -> Statement:
    if reader.take("CREATE"):
        return _create(reader, start)
    if reader.take("DROP"):
        kind = _kind(reader, "DROP")
        if reader.at("IF"):
            raise Unsupported("IF EXISTS is not supported", hint="drop what exists", position=reader.position)
        return Drop(
            kind, reader.name("the name of constraints" if kind == "constraints" else f"the name of a {kind}"), start
        )
    if reader.take("SET"):
        name = reader.dotted("the name of a setting")
        reader.expect("=", hint="SET name = value;")
        value = reader.value()
        if reader.at("-"):
            reader.fail("expected ; or the end", hint="a value of several words is written as 'text'")
        return Set(name, value, start)
    if reader.take("EXPLAIN"):
        analyze = reader.take("ANALYZE")
        if reader.take("TEMPLATE"):
            return Explain(reader.name("the name of a template"), analyze, "template", start)
        if word := reader.at_any(*_REQUESTS):
            reader.take(word)
            return Explain(_REQUESTS[word](reader), analyze, "template", start)
        if reader.at_any("SELECT", "WITH") or (reader.at_any(*_BODIES) and _body_follows(reader)):
            return Explain(_body(reader), analyze, "query", start)
        return Explain(reader.name("the name of a query, or SELECT"), analyze, "query", start)
    if word := reader.at_any(*_REQUESTS):
        reader.take(word)
        return _REQUESTS[word](reader)
    if reader.take("PUNCTUATE"):
        return read_punctuate(reader, start)
    if reader.take("HERALD"):
        return read_herald(reader, start)
    if reader.at_any("SELECT", "WITH", *_BODIES):
        return _body(reader)
    if word := reader.at_any("INSERT", "UPDATE", "DELETE", "MERGE", "ALTER", "TRUNCATE"):
        raise Unsupported(
            f"{word} is not supported", hint="rows come from sources, and results go to sinks", position=start
        )
    reader.fail("expected a statement", hint=_STATEMENTS)


def _body_follows(reader: StatementReader) -> bool:
    """Whether a word as EVENT begins a query here, and is not the name of one."""
    return reader.tokens[reader.index + 1].kind != "end"


def _body(reader: StatementReader) -> Body:
    """What CREATE QUERY … AS takes."""
    if word := reader.at_any(*_BODIES):
        return _BODIES[word](reader)
    first, start = reader.index, reader.position
    named = _named_queries(reader)
    parts = [_select(reader)]
    while reader.take("UNION"):
        if not reader.take("ALL"):
            raise Unsupported(
                "UNION is not supported",
                hint="UNION ALL keeps every row; SELECT DISTINCT compares them",
                position=reader.position,
            )
        parts.append(_select(reader))
    text = reader.text_since(first)
    if len(parts) > 1:
        return Union(tuple(parts), named, text, start)
    return replace(parts[0], named=named, text=text, position=start)


def _named_queries(reader: StatementReader) -> tuple[tuple[str, Body], ...]:
    """WITH name AS (…), …"""
    found: list[tuple[str, Body]] = []
    if reader.take("WITH"):
        if reader.at("RECURSIVE"):
            raise Unsupported(
                "WITH RECURSIVE is not supported", hint="a query cannot read itself", position=reader.position
            )
        while not found or reader.take(","):
            name = reader.name("the name of a query")
            reader.expect("AS", "(", hint="WITH name AS (SELECT …) SELECT …")
            found.append((name, _body(reader)))
            reader.expect(")")
    return tuple(found)


def _kind(reader: StatementReader, verb: str) -> str:
    if kind := reader.at_any(
        "STREAM", "TABLE", "QUERY", "SINK", "TEMPLATE", "REQUESTS", "CONSTRAINTS", "PUNCTUATION", "FUNCTION"
    ):
        reader.take(kind)
        return kind.lower()
    position = reader.position
    if reader.at("OR", "REPLACE"):
        raise Unsupported("OR REPLACE is not supported", hint="DROP first, then CREATE", position=position)
    if word := reader.at_any("PATTERN", "HERALD"):
        raise Unsupported(
            f"{verb} {word} is not supported",
            hint="one can create streams, tables, queries, sinks and constraints",
            position=position,
        )
    if reader.at_any("VIEW", "MATERIALIZED"):
        raise Unsupported(
            f"{verb} VIEW is not supported",
            hint="a standing SELECT is a query: CREATE QUERY name AS SELECT …",
            position=position,
        )
    reader.fail("expected STREAM, TABLE, QUERY, SINK, TEMPLATE, REQUESTS, CONSTRAINTS, PUNCTUATION or FUNCTION")


def _create(reader: StatementReader, start: Position) -> Statement:
    kind = _kind(reader, "CREATE")
    if reader.at("IF", "NOT", "EXISTS"):
        raise Unsupported("IF NOT EXISTS is not supported", hint="DROP first, then CREATE", position=reader.position)
    name = reader.name("the name of constraints" if kind == "constraints" else f"the name of a {kind}")
    if kind == "query":
        options = _options(reader)
        reader.expect("AS", hint="CREATE QUERY name [WITH (…)] AS SELECT … or AS EVENT …")
        return CreateQuery(name, _body(reader), options, start)
    if kind == "punctuation":
        return read_punctuation(reader, name, start)
    if kind == "sink":
        reader.expect("FOR", hint="CREATE SINK name FOR query | ALL WITH (…)")
        query = None if reader.take("ALL") else reader.name("the name of a query, or ALL")
        return CreateSink(name, query, _options(reader), start)
    if kind in _CREATED:
        return _CREATED[kind](reader, name, start)
    if kind == "function":
        return read_function(reader, name, start, partial(_columns, kind=kind, name=name), _options)
    if kind == "stream" and reader.at_any("AS", "WITH"):
        options = _options(reader)
        reader.expect(
            "AS", hint="CREATE STREAM name (column TYPE, …) WITH (…), or CREATE STREAM name [WITH (…)] AS SELECT …"
        )
        return CreateDerived(name, _body(reader), options, start)
    if reader.at("AS"):
        raise Unsupported(
            f"CREATE {kind.upper()} … AS is not supported",
            hint="CREATE QUERY name AS SELECT …",
            position=reader.position,
        )
    columns = _columns(reader, kind, name)
    made = CreateStream if kind == "stream" else CreateTable
    return made(name, columns, _options(reader), start)


#: What begins a query beside SELECT and WITH -> what reads it.
_BODIES: dict[str, Callable[[StatementReader], Body]] = {
    "EVENT": lambda reader: read_event(reader, lambda r: r.listed(_item)),
}
#: What begins a statement that asks a template -> what reads the rest.
_REQUESTS: dict[str, Callable[[StatementReader], RequestStatement]] = {
    "REQUEST": lambda reader: read_request(reader),
}
#: What single features let one create -> what reads the rest of the statement after the name.
_CREATED: dict[str, Callable[[StatementReader, str, Position], Statement]] = {
    "constraints": lambda reader, name, start: read_constraints(reader, name, start, _options),
    "template": lambda reader, name, start: read_template(reader, name, start, _options(reader), _select),
    "requests": lambda reader, name, start: read_requests(
        reader, name, start, partial(_columns, kind="requests", name=name), _options
    ),
}


def _columns(reader: StatementReader, kind: str, name: str) -> tuple[ColumnDefinition, ...]:
    reader.expect("(", hint=f"CREATE {kind.upper()} {name} (column TYPE, …) WITH (…)")
    columns = reader.listed(_column)
    reader.expect(")")
    return columns


def _column(reader: StatementReader) -> ColumnDefinition:
    start = reader.position
    name = reader.name("the name of a column")
    kind = read_type(reader, "the type of the column")
    if reader.at_any("NOT", "NULL", "PRIMARY", "UNIQUE", "DEFAULT", "REFERENCES", "CHECK"):
        raise Unsupported(
            f"{reader.next.upper} after a column is not supported",
            hint="a column has a name and a type",
            position=reader.position,
        )
    return ColumnDefinition(name, kind, start)


def _options(reader: StatementReader) -> tuple[WithOption, ...]:
    if not reader.take("WITH"):
        return ()
    reader.expect("(", hint="WITH (name = value, …)")
    options = reader.listed(_option)
    reader.expect(")")
    seen: set[str] = set()
    for option in options:
        if option.name in seen:
            raise SyntaxProblem(f"option {option.name} is given twice", hint="keep one", position=option.position)
        seen.add(option.name)
    return options


def _option(reader: StatementReader) -> WithOption:
    start = reader.position
    name = reader.dotted("the name of an option").lower()
    reader.expect("=", hint="WITH (name = value, …)")
    return WithOption(name, reader.value(), start)


def _select(reader: StatementReader) -> Select:
    first, start = reader.index, reader.position
    reader.expect("SELECT")
    distinct = reader.take("DISTINCT")
    if reader.at("ON") and distinct:
        raise Unsupported(
            "DISTINCT ON is not supported", hint="SELECT DISTINCT compares all columns", position=reader.position
        )
    if not distinct:
        reader.take("ALL")
    items = reader.listed(_item)
    _refuse_foreign_clause(reader)
    reader.expect("FROM", hint="a query reads at least one stream")
    sources = _sources(reader)
    where, exists = read_where(reader, _select) if reader.take("WHERE") else (None, ())
    _refuse_foreign_clause(reader)
    group_by: tuple[Node, ...] = ()
    if reader.take("GROUP"):
        reader.expect("BY")
        if word := reader.at_any("ALL", "ROLLUP", "CUBE", "GROUPING"):
            raise Unsupported(
                f"GROUP BY {word} is not supported", hint="name the grouping expressions", position=reader.position
            )
        group_by = reader.listed(StatementReader.expression)
    having = reader.expression() if reader.take("HAVING") else None
    qualify = reader.expression() if reader.take("QUALIFY") else None
    order_by, limit = read_limit(reader)
    _refuse_foreign_clause(reader)
    emit_position = reader.position
    emit = _emit(reader)
    return Select(
        items, sources, where, group_by, having, distinct, emit, reader.text_since(first), start, emit_position,
        qualify=qualify, order_by=order_by, limit=limit, exists=exists,
    )  # fmt: skip


def _item(reader: StatementReader) -> Item:
    start = reader.position
    if reader.take("*"):
        return _bare_star(reader, Star(None, start), start)
    if reader.at_name() and reader.tokens[reader.index + 1].text == "." and reader.tokens[reader.index + 2].text == "*":
        table = reader.name("an alias")
        reader.expect(".", "*")
        return _bare_star(reader, Star(table, start), start)
    value = reader.expression()
    if reader.take("AS"):
        return Item(value, reader.name("a name after AS"), start)
    return Item(value, reader.name("a name") if reader.at_name() else None, start)


def _bare_star(reader: StatementReader, star: Star, start: Position) -> Item:
    if word := reader.at_any("EXCEPT", "EXCLUDE", "REPLACE", "RENAME"):
        raise Unsupported(f"* {word} is not supported", hint="name the columns", position=reader.position)
    if reader.at("AS"):
        reader.fail("expected , or FROM", hint="* takes no name")
    return Item(star, None, start)


def _sources(reader: StatementReader) -> tuple[FromEntry, ...]:
    sources = [_source(reader, ",")]
    while True:
        if reader.take(","):
            sources.append(_source(reader, ","))
        elif reader.at("JOIN", "LATEST") and _names_query(reader, 2):
            reader.take("JOIN", "LATEST")
            sources.append(_source(reader, "LATEST"))
        elif reader.at("LEFT", "JOIN", "LATEST") and _names_query(reader, 3):
            reader.take("LEFT", "JOIN", "LATEST")
            sources.append(_source(reader, "LEFT LATEST"))
        elif reader.take("JOIN") or reader.take("INNER", "JOIN"):
            sources.append(_source(reader, "INNER"))
        elif reader.take("CROSS", "JOIN"):
            sources.append(_source(reader, "CROSS"))
        elif side := _outer(reader):
            sources.append(_source(reader, side))
        else:
            _refuse_foreign_clause(reader)
            return tuple(sources)


#: What to write where ON is missing; a side of an outer join has its own name in it.
_ON = {
    "INNER": "JOIN … ON condition; without a condition it is CROSS JOIN or a comma",
    "LATEST": "JOIN LATEST query ON condition",
    "LEFT LATEST": "LEFT JOIN LATEST query ON condition",
}


def _names_query(reader: StatementReader, ahead: int) -> bool:
    """Whether a name or a subquery stands there: LATEST is no name then."""
    token = reader.tokens[reader.index + ahead]
    return token.text == "(" or token.kind == "quoted" or (token.kind == "word" and token.upper not in RESERVED)


def _outer(reader: StatementReader) -> str | None:
    """LEFT, RIGHT or FULL, if such a join comes next."""
    for side in ("LEFT", "RIGHT", "FULL"):
        if reader.take(side, "JOIN") or reader.take(side, "OUTER", "JOIN"):
            return side
        if reader.at(side):
            reader.take(side)
            _refuse_foreign_clause(reader)
            reader.fail(f"expected JOIN after {side}", hint=f"{side} [OUTER] JOIN … ON condition")
    return None


def _source(reader: StatementReader, join: str) -> FromEntry:
    start = reader.position
    query = None
    if reader.at("UNNEST"):
        return read_unnest(reader, join, start)
    if word := reader.at_any("LATERAL", "VALUES"):
        raise Unsupported(f"{word} in FROM is not supported", hint="FROM takes streams and tables", position=start)
    group_window = None
    if reader.take("("):
        name, query = "", _body(reader)
        reader.expect(")")
    elif reader.at("TABLE", "("):
        reader.take("TABLE")
        name, group_window = read_table_function(reader)
    else:
        name = reader.name("a stream or a table")
    if reader.at("."):
        raise Unsupported(
            "names with a point are not supported in FROM", hint="streams and tables have simple names", position=start
        )
    if reader.at("("):
        raise Unsupported(
            f"the table function {name} is not supported", hint="FROM takes streams and tables", position=start
        )
    window = read_window(reader)
    alias = reader.name("an alias") if reader.take("AS") or reader.at_name() else None
    position = reader.position
    second = read_window(reader)
    if window is not None and second is not None:
        raise SyntaxProblem(
            f"{alias or name} has two windows", hint="keep one: after the name or after the alias", position=position
        )
    if alias is None and reader.at_name():
        alias = reader.name("an alias")
    if query is not None and alias is None:
        raise SyntaxProblem("a subquery needs an alias", hint="FROM (SELECT …) AS name", position=start)
    on = None
    if join in ("INNER", "LEFT", "RIGHT", "FULL", "LATEST", "LEFT LATEST"):
        _refuse_foreign_clause(reader)
        reader.expect("ON", hint=_ON.get(join, f"{join} JOIN … ON condition"))
        on = reader.expression()
    return FromEntry(name, alias, window if second is None else second, join, on, group_window, query, start)


def _emit(reader: StatementReader) -> Emit | None:
    if not reader.take("EMIT"):
        return None
    if reader.take("EVERY"):
        position = reader.position
        period = read_span(reader)
        if period < 1:
            raise SyntaxProblem("EMIT EVERY takes a span longer than zero", position=position)
        return Emit("every", period)
    if reader.take("ON", "CHANGE"):
        return Emit("change")
    if reader.take("ON", "CLOSE"):
        return Emit("close")
    reader.fail("expected ON CHANGE, EVERY or ON CLOSE", hint="EMIT ON CHANGE | EVERY 10 SECONDS | ON CLOSE")


def _refuse_foreign_clause(reader: StatementReader) -> None:
    word = reader.next.upper if reader.next.kind == "word" else ""
    if word in _FOREIGN_CLAUSES:
        clause, hint = _FOREIGN_CLAUSES[word]
        raise Unsupported(f"{clause} is not supported", hint=hint, position=reader.position)
