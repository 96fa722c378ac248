"""The grammar of statements: which clauses there are, and in which order.

Answer   `read_statement` turns the tokens of one statement into its syntax tree. A clause that SQL has and this language
         has not is refused by name, with what to write instead.
Limits   `text/dialect.py` reads expressions, `text/windows.py` windows, and the other files of this folder the clauses
         that they name. Names are looked up later, in `binding/`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from eddyline.errors import SyntaxProblem, Unsupported
from eddyline.language import syntax
from eddyline.language.binding.group_windows import read_table_function
from eddyline.language.derived.unnest import read_unnest
from eddyline.language.grammar.clauses import read_columns, read_items, read_options
from eddyline.language.grammar.events import read_constraints, read_event
from eddyline.language.grammar.exists import read_where
from eddyline.language.grammar.ranking_text import read_limit
from eddyline.language.grammar.request_clauses import read_request, read_requests, read_template
from eddyline.language.other_functions import instead
from eddyline.language.own_functions import read_function
from eddyline.language.records.heralds import read_herald
from eddyline.language.records.punctuations import read_punctuate, read_punctuation
from eddyline.language.syntax import Body, FromEntry, Node, RequestStatement, Select, Statement
from eddyline.language.text.reader import RESERVED, StatementReader
from eddyline.language.text.windows import read_span, read_window
from eddyline.model.query import Emit

_FIRST_WORDS = "statements begin with CREATE, DROP, SET, EXPLAIN, REQUEST, PUNCTUATE, HERALD or SELECT"
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
    start = reader.position
    statement = ended(reader, _statement(reader))
    return statement if statement.position is not None else replace(statement, position=start)


def ended(reader: StatementReader, statement: Statement) -> Statement:
    if reader.next.kind != "end":
        _refuse_foreign_clause(reader)
        reader.fail_at_clause("expected ; or the end", hint=instead(reader.next.text) or "")
    return statement


def _statement(reader: StatementReader) -> Statement:
    if word := reader.at_any(*_STATEMENTS):
        reader.take(word)
        return _STATEMENTS[word](reader)
    if reader.at_any("SELECT", "WITH", *_BODIES):
        return _body(reader)
    if word := reader.at_any("INSERT", "UPDATE", "DELETE", "MERGE", "ALTER", "TRUNCATE"):
        reader.unsupported(word, "rows come from sources, and results go to sinks")
    reader.fail("expected a statement", hint=_FIRST_WORDS)


def _drop(reader: StatementReader) -> Statement:
    kind = _kind(reader, "DROP")
    if reader.at("IF"):
        reader.unsupported("IF EXISTS", "drop what exists")
    return syntax.Drop(kind, _name(reader, kind))


def _set(reader: StatementReader) -> Statement:
    name = reader.dotted("the name of a setting")
    reader.expect("=", hint="SET name = value;")
    value = reader.value()
    if reader.at("-"):
        reader.fail("expected ; or the end", hint="a value of several words is written as 'text'")
    return syntax.Set(name, value)


def _explain(reader: StatementReader) -> Statement:
    analyze = reader.take("ANALYZE")
    if reader.take("TEMPLATE"):
        return syntax.Explain(reader.name("the name of a template"), analyze, "template")
    if word := reader.at_any(*_REQUESTS):
        reader.take(word)
        return syntax.Explain(_REQUESTS[word](reader), analyze, "template")
    if reader.at_any("SELECT", "WITH") or (reader.at_any(*_BODIES) and _body_follows(reader)):
        return syntax.Explain(_body(reader), analyze)
    return syntax.Explain(reader.name("the name of a query, or SELECT"), analyze)


def _body_follows(reader: StatementReader) -> bool:
    """Whether a word such as EVENT begins a query here; otherwise it is the name of one."""
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
            reader.unsupported("UNION", "UNION ALL keeps every row; SELECT DISTINCT compares them")
        parts.append(_select(reader))
    text = reader.text_since(first)
    if len(parts) > 1:
        return syntax.Union(tuple(parts), named, text=text, position=start)
    return replace(parts[0], named=named, text=text, position=start)


def _named_queries(reader: StatementReader) -> tuple[tuple[str, Body], ...]:
    """WITH name AS (…), …"""
    found: list[tuple[str, Body]] = []
    if reader.take("WITH"):
        if reader.at("RECURSIVE"):
            reader.unsupported("WITH RECURSIVE", "a query cannot read itself")
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
    if reader.at("OR", "REPLACE"):
        reader.unsupported("OR REPLACE", "DROP first, then CREATE")
    if word := reader.at_any("PATTERN", "HERALD"):
        reader.unsupported(f"{verb} {word}", "one can create streams, tables, queries, sinks and constraints")
    if reader.at_any("VIEW", "MATERIALIZED"):
        reader.unsupported(f"{verb} VIEW", "a standing SELECT is a query: CREATE QUERY name AS SELECT …")
    reader.fail("expected STREAM, TABLE, QUERY, SINK, TEMPLATE, REQUESTS, CONSTRAINTS, PUNCTUATION or FUNCTION")


def _name(reader: StatementReader, kind: str) -> str:
    return reader.name("the name of constraints" if kind == "constraints" else f"the name of a {kind}")


def _create(reader: StatementReader) -> Statement:
    kind = _kind(reader, "CREATE")
    if reader.at("IF", "NOT", "EXISTS"):
        reader.unsupported("IF NOT EXISTS", "DROP first, then CREATE")
    return _CREATED[kind](reader, _name(reader, kind))


def _create_query(reader: StatementReader, name: str) -> Statement:
    options = read_options(reader)
    reader.expect("AS", hint="CREATE QUERY name [WITH (…)] AS SELECT … or AS EVENT …")
    return syntax.CreateQuery(name, _body(reader), options)


def _create_sink(reader: StatementReader, name: str) -> Statement:
    reader.expect("FOR", hint="CREATE SINK name FOR query | ALL WITH (…)")
    query = None if reader.take("ALL") else reader.name("the name of a query, or ALL")
    return syntax.CreateSink(name, query, read_options(reader))


def _create_stream(reader: StatementReader, name: str) -> Statement:
    if not reader.at_any("AS", "WITH"):
        return syntax.CreateStream(name, read_columns(reader, "stream", name), read_options(reader))
    options = read_options(reader)
    form = "CREATE STREAM name (column TYPE, …) WITH (…), or CREATE STREAM name [WITH (…)] AS SELECT …"
    reader.expect("AS", hint=form)
    return syntax.CreateDerived(name, _body(reader), options)


def _create_table(reader: StatementReader, name: str) -> Statement:
    if reader.at("AS"):
        reader.unsupported("CREATE TABLE … AS", "CREATE QUERY name AS SELECT …")
    return syntax.CreateTable(name, read_columns(reader, "table", name), read_options(reader))


def _select(reader: StatementReader) -> Select:
    first, start = reader.index, reader.position
    reader.expect("SELECT")
    distinct = reader.take("DISTINCT")
    if reader.at("ON") and distinct:
        reader.unsupported("DISTINCT ON", "SELECT DISTINCT compares all columns")
    if not distinct:
        reader.take("ALL")
    items = read_items(reader)
    _refuse_foreign_clause(reader)
    if not reader.take("FROM"):
        reader.fail_at_clause("expected FROM", hint="a query reads at least one stream")
    sources = _sources(reader)
    where, exists = read_where(reader, _select) if reader.take("WHERE") else (None, ())
    _refuse_foreign_clause(reader)
    group_by: tuple[Node, ...] = ()
    if reader.take("GROUP"):
        reader.expect("BY")
        if word := reader.at_any("ALL", "ROLLUP", "CUBE", "GROUPING"):
            reader.unsupported(f"GROUP BY {word}", "name the grouping expressions")
        group_by = reader.listed(StatementReader.expression)
    having = reader.expression() if reader.take("HAVING") else None
    qualify = reader.expression() if reader.take("QUALIFY") else None
    order_by, limit = read_limit(reader)
    _refuse_foreign_clause(reader)
    emit_position = reader.position
    emit = _emit(reader)
    return Select(
        items, sources, where, group_by, having, distinct, emit, emit_position, (), qualify, order_by, limit, exists,
        text=reader.text_since(first), position=start,
    )  # fmt: skip


#: The words before a source, and how `FromEntry.join` calls the join.
_JOINS = (
    ((",",), ","),
    (("JOIN", "LATEST"), "LATEST"),
    (("LEFT", "JOIN", "LATEST"), "LEFT LATEST"),
    (("JOIN",), "INNER"),
    (("INNER", "JOIN"), "INNER"),
    (("CROSS", "JOIN"), "CROSS"),
    *(((side, *outer, "JOIN"), side) for side in ("LEFT", "RIGHT", "FULL") for outer in ((), ("OUTER",))),
)
#: What to write where ON is missing; a side of an outer join has its own name in it.
_ON = {
    "INNER": "JOIN … ON condition; without a condition it is CROSS JOIN or a comma",
    "LATEST": "JOIN LATEST query ON condition",
    "LEFT LATEST": "LEFT JOIN LATEST query ON condition",
}


def _sources(reader: StatementReader) -> tuple[FromEntry, ...]:
    sources = [_source(reader, ",")]
    while join := _join(reader):
        sources.append(_source(reader, join))
    _refuse_foreign_clause(reader)
    return tuple(sources)


def _join(reader: StatementReader) -> str | None:
    """How the next source is joined with those before it; None: there is no further one."""
    for words, join in _JOINS:
        if reader.at(*words) and (words[-1] != "LATEST" or _names_query(reader, len(words))):
            reader.take(*words)
            return join
    if side := reader.at_any("LEFT", "RIGHT", "FULL"):
        reader.take(side)
        _refuse_foreign_clause(reader)
        reader.fail(f"expected JOIN after {side}", hint=f"{side} [OUTER] JOIN … ON condition")
    return None


def _names_query(reader: StatementReader, ahead: int) -> bool:
    """Whether a name or a subquery follows so many tokens ahead; otherwise LATEST itself is a name."""
    token = reader.tokens[reader.index + ahead]
    return token.text == "(" or token.kind == "quoted" or (token.kind == "word" and token.upper not in RESERVED)


def _source(reader: StatementReader, join: str) -> FromEntry:
    start = reader.position
    query = None
    if reader.at("UNNEST"):
        return read_unnest(reader, join, start)
    if word := reader.at_any("LATERAL", "VALUES"):
        reader.unsupported(f"{word} in FROM", "FROM takes streams and tables")
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
        reader.unsupported(f"the table function {name}", "FROM takes streams and tables", start)
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
    if join not in (",", "CROSS"):
        _refuse_foreign_clause(reader)
        reader.expect("ON", hint=_ON.get(join, f"{join} JOIN … ON condition"))
        on = reader.expression()
    return FromEntry(name, alias, window if second is None else second, join, on, group_window, query, position=start)


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
    word = reader.at_any(*_FOREIGN_CLAUSES)
    if word is not None:
        reader.unsupported(*_FOREIGN_CLAUSES[word])


#: What begins a query beside SELECT and WITH -> what reads it.
_BODIES: dict[str, Callable[[StatementReader], Body]] = {
    "EVENT": read_event,
}
#: The words that begin a request to a template -> what reads the rest.
_REQUESTS: dict[str, Callable[[StatementReader], RequestStatement]] = {
    "REQUEST": read_request,
}
#: The first word of a statement -> what reads the rest.
_STATEMENTS: dict[str, Callable[[StatementReader], Statement]] = {
    "CREATE": _create,
    "DROP": _drop,
    "SET": _set,
    "EXPLAIN": _explain,
    "PUNCTUATE": read_punctuate,
    "HERALD": read_herald,
    **_REQUESTS,
}
#: What CREATE makes -> what reads the rest of the statement after the name.
_CREATED: dict[str, Callable[[StatementReader, str], Statement]] = {
    "query": _create_query,
    "sink": _create_sink,
    "stream": _create_stream,
    "table": _create_table,
    "punctuation": read_punctuation,
    "function": read_function,
    "constraints": read_constraints,
    "template": lambda reader, name: read_template(reader, name, _select),
    "requests": read_requests,
}
