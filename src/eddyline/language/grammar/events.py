"""The grammar of EVENT queries and of CREATE CONSTRAINTS.

Answer   `read_event` reads `EVENT expression FROM stream TYPE column …`, `read_constraints` what follows CREATE
         CONSTRAINTS.
Limits   Clauses stand in one order. No name is looked up here; `bind_event.py` does that.
"""

from __future__ import annotations

from collections.abc import Callable

from eddyline.errors import Position, SyntaxProblem, Unsupported
from eddyline.language.grammar.clauses import read_items, read_options
from eddyline.language.syntax import BookClause, CreateConstraints, Event, EventGroup, EventLeaf, EventNode
from eddyline.language.text.reader import StatementReader
from eddyline.language.text.windows import read_span
from eddyline.model.patterns.constraint import EventType, Rule

EVENT_FORM = (
    "EVENT … FROM stream TYPE column [PARTITION BY …] [WHERE …] [WITHIN …] [ALL MATCHES | FIRST MATCH] [RETURN …]"
)
_LEAF = "a type: a word, a 'text' or a whole number"
#: How many types each rule takes; None: one or more.
_RULES = {"PRIOR": 2, "EXCLUSIVE": 2, "REQUIRE": 2, "ONCE": 1, "BEGIN": None, "END": None}
#: DECLARE names that mean the same as one of ours, with the order of their two types.
_DECLARE: dict[str, tuple[str, Callable[[tuple[EventType, ...]], tuple[EventType, ...]]]] = {
    "NOT_COEXISTENCE": ("exclusive", lambda types: types),
    "RESPONDED_EXISTENCE": ("require", lambda types: types),
    "NOT_SUCCESSION": ("prior", lambda types: types[::-1]),
    "AT_MOST_ONE": ("once", lambda types: types),
}
_WORKING = ", ".join((*_RULES, "IF … THEN …", "END AFTER", *_DECLARE))


def read_event(reader: StatementReader) -> Event:
    """An EVENT query; its first word is the next token."""
    first, start = reader.index, reader.position
    reader.expect("EVENT")
    begin = reader.index
    try:
        expression = _expression(reader)
    except RecursionError as failure:
        hint = "a SEQ in a SEQ, an AND in an AND and an OR in an OR are their members"
        raise SyntaxProblem("this pattern is nested too deeply", hint=hint, position=start) from failure
    text = reader.text_since(begin)
    reader.expect("FROM", hint=EVENT_FORM)
    book = _book(reader)
    where = reader.expression() if reader.take("WHERE") else None
    within = None
    if reader.take("WITHIN"):
        position = reader.position
        within = read_span(reader)
        if within < 0:
            raise SyntaxProblem("WITHIN takes a span of time", position=position)
    first_only = False
    if reader.take("FIRST"):
        reader.expect("MATCH", hint="ALL MATCHES | FIRST MATCH")
        first_only = True
    elif reader.take("ALL"):
        reader.expect("MATCHES", hint="ALL MATCHES | FIRST MATCH")
    items = read_items(reader) if reader.take("RETURN") else None
    if word := reader.at_any("WHERE", "WITHIN", "FIRST", "ALL", "RETURN", "PARTITION", "TYPE", "FROM"):
        reader.fail(f"{word} stands in the wrong place", hint=f"the order is {EVENT_FORM}")
    return Event(
        expression, book, where, within, first_only, items, text, text=reader.text_since(first), position=start
    )


def _book(reader: StatementReader) -> BookClause:
    start = reader.position
    stream = reader.name("a stream")
    reader.expect("TYPE", hint="stream TYPE column says which column holds the types of events")
    column = reader.name("the column of types")
    partition: tuple[str, ...] = ()
    if reader.take("PARTITION"):
        reader.expect("BY")
        partition = reader.names("a column")
    return BookClause(stream, column, partition, position=start)


def _expression(reader: StatementReader) -> EventNode:
    start = reader.position
    word = reader.at_any("SEQ", "AND", "OR", "NOT")
    if word and reader.tokens[reader.index + 1].text == "(":
        reader.take(word, "(")
        members = reader.listed(_expression)
        reader.expect(")")
        if word == "NOT" and (len(members) > 1 or not isinstance(members[0], EventLeaf)):
            raise Unsupported(
                "NOT takes one event",
                hint="NOT(Type[condition] alias); several NOTs may stand side by side",
                position=start,
            )
        return EventGroup(word, members, position=start)
    bare = reader.next.kind in ("word", "quoted")
    kind = event_type(reader)
    condition = None
    if reader.take("["):
        condition = reader.expression()
        reader.expect("]", hint="a condition on one event stands in [ ]: GenerateQuote[price > 200] q")
    alias = reader.name("an alias") if reader.take("AS") or reader.at_name() else None
    if alias is None and not bare:
        raise SyntaxProblem(
            f"the event {kind!r} needs an alias",
            hint="a 'text' or a number is no name: write 'type' alias",
            position=start,
        )
    return EventLeaf(kind, bare, condition, alias, position=start)


def event_type(reader: StatementReader) -> EventType:
    """The type of an event, as written."""
    token = reader.next
    if token.kind == "string":
        reader.index += 1
        return token.text
    if token.kind == "number" or (token.text == "-" and reader.tokens[reader.index + 1].kind == "number"):
        position = reader.position
        value = reader.value()
        if not isinstance(value, int):
            raise SyntaxProblem(f"{value} is not {_LEAF}", position=position)
        return value
    return reader.name(_LEAF)


def read_constraints(reader: StatementReader, name: str) -> CreateConstraints:
    """What follows `CREATE CONSTRAINTS name`."""
    first = reader.index - 3
    reader.expect("ON", hint="CREATE CONSTRAINTS name ON stream TYPE column [PARTITION BY …] (…)")
    book = _book(reader)
    if reader.take("FROM"):
        reader.expect("WORKFLOW", hint="FROM WORKFLOW 'order.bpmn'")
        if reader.next.kind != "string":
            reader.fail("expected the path of a workflow in quotes", hint="FROM WORKFLOW 'order.bpmn'")
        reader.index += 1
        path = reader.tokens[reader.index - 1].text
        options = read_options(reader)
        return CreateConstraints(name, book, (), path, options, text=reader.text_since(first))
    reader.expect("(", hint="a list of constraints in parentheses, or FROM WORKFLOW 'order.bpmn'")
    rules = reader.listed(_rule)
    reader.expect(")")
    return CreateConstraints(name, book, rules, text=reader.text_since(first))


def _rule(reader: StatementReader) -> Rule:
    position = reader.position
    if reader.take("IF"):
        return _clause(reader)
    if reader.take("END", "AFTER"):
        span = read_span(reader)
        if span < 1:
            raise SyntaxProblem("END AFTER takes a span longer than zero", position=position)
        return Rule("end after", span=span)
    word = reader.word(f"a constraint: {_WORKING}").upper()
    if word in _DECLARE:
        kind, order = _DECLARE[word]
        return _checked(Rule(kind, order(_types(reader, word, 1 if kind == "once" else 2))), position)
    if word not in _RULES:
        reader.unsupported(f"the constraint {word}", f"constraints are {_WORKING}", position)
    return _checked(Rule(word.lower(), _types(reader, word, _RULES[word])), position)


def _types(reader: StatementReader, word: str, count: int | None) -> tuple[EventType, ...]:
    position = reader.position
    reader.expect("(", hint=f"{word}(type{', …' if count != 1 else ''})")
    found = reader.listed(event_type)
    reader.expect(")")
    if count is not None and len(found) != count:
        raise SyntaxProblem(f"{word} takes {count} type{'s' if count > 1 else ''}, not {len(found)}", position=position)
    return found


def _checked(rule: Rule, position: Position) -> Rule:
    if rule.kind == "exclusive" and rule.types[0] == rule.types[1]:
        raise SyntaxProblem(f"{rule} names one type twice", hint="ONCE(type) allows it once", position=position)
    return rule


def _clause(reader: StatementReader) -> Rule:
    given = reader.listed(event_type, "AND")
    reader.expect("THEN", hint="IF a AND b THEN c, or THEN NOT c")
    negated = reader.take("NOT")
    return Rule("if", (*dict.fromkeys(given), event_type(reader)), negated)
