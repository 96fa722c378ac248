"""The syntax tree: frozen nodes, one class per form of the language.

Answer   Statements and, inside them, expressions whose names are not resolved yet. Nodes compare by what they say:
         positions and the original text take no part in `==`, so a rendered statement equals the one it came from.
Limits   Nothing here is checked against a catalog; `bind.py` does that.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from eddyline.errors import Position
from eddyline.model.datatypes import DataType
from eddyline.model.patterns.constraint import EventType, Rule
from eddyline.model.query import Emit
from eddyline.model.window import Window
from eddyline.settings import Value


@dataclass(frozen=True)
class Name:
    """A column, perhaps with the alias it belongs to."""

    name: str
    table: str | None = None
    position: Position | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Constant:
    """A literal. `kind` is null, boolean, integer, double, string, timestamp, date or interval; the last three hold
    their text. Of kind integers, doubles or strings it is the values of a long IN list."""

    kind: str
    value: object
    position: Position | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Apply:
    """An operator or a function, by canonical lower-case name; `star` is the argument of COUNT(*)."""

    function: str
    args: tuple[Node, ...]
    distinct: bool = False
    star: bool = False
    position: Position | None = field(default=None, compare=False, repr=False)
    #: FILTER (WHERE …) of an aggregate in which NULL is a value.
    where: Node | None = None


@dataclass(frozen=True)
class Cast:
    operand: Node
    type: DataType
    position: Position | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Ordered:
    """One expression of ORDER BY; without a word nulls come last."""

    value: Node
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True)
class Over:
    """`function(args) OVER (PARTITION BY … ORDER BY …)`."""

    function: str
    args: tuple[Node, ...]
    partition: tuple[Node, ...] = ()
    order: tuple[Ordered, ...] = ()
    position: Position | None = field(default=None, compare=False, repr=False)


Node = Name | Constant | Apply | Cast | Over


@dataclass(frozen=True)
class Star:
    """`*` or `alias.*` in SELECT."""

    table: str | None = None
    position: Position | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Item:
    """One entry of SELECT; `alias` is None where no name was given."""

    value: Node | Star
    alias: str | None = None
    position: Position | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class FromEntry:
    """One entry of FROM. `join` is how it is joined with the entries before it: ",", CROSS, INNER, LEFT, RIGHT, FULL,
    LATEST or LEFT LATEST; all but the first two have `on`."""

    name: str
    alias: str | None = None
    window: Window | None = None
    join: str = ","
    on: Node | None = None
    #: Of `TABLE(TUMBLE(…))`: the group window as it would stand in GROUP BY.
    group_window: Apply | None = None
    #: Of `(SELECT …)`; the name is empty.
    query: Body | None = None
    position: Position | None = field(default=None, compare=False, repr=False)
    #: Of `UNNEST(…) AS name`, or `AS name(alias)`: the array.
    unnest: Node | None = None


@dataclass(frozen=True)
class Select:
    items: tuple[Item, ...]
    sources: tuple[FromEntry, ...]
    where: Node | None = None
    group_by: tuple[Node, ...] = ()
    having: Node | None = None
    distinct: bool = False
    emit: Emit | None = None
    #: The SELECT as written.
    text: str = field(default="", compare=False, repr=False)
    position: Position | None = field(default=None, compare=False, repr=False)
    emit_position: Position | None = field(default=None, compare=False, repr=False)
    #: WITH name AS (…): queries that FROM may name.
    named: tuple[tuple[str, Body], ...] = ()
    qualify: Node | None = None
    order_by: tuple[Ordered, ...] = ()
    limit: int | None = None
    #: [NOT] EXISTS (…) among the conditions of WHERE.
    exists: tuple[Exists, ...] = ()


@dataclass(frozen=True)
class Exists:
    """[NOT] EXISTS (SELECT …)."""

    select: Select
    negated: bool
    position: Position | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Union:
    """SELECT … UNION ALL SELECT …"""

    parts: tuple[Select, ...]
    #: WITH name AS (…), before the first SELECT.
    named: tuple[tuple[str, Body], ...] = ()
    text: str = field(default="", compare=False, repr=False)
    position: Position | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class EventLeaf:
    """One event of a pattern: its type, a condition on it, and its alias."""

    type: EventType
    #: Whether the type was written bare, so that it serves as the name.
    bare: bool
    condition: Node | None = None
    alias: str | None = None
    position: Position | None = field(default=None, compare=False, repr=False)

    @property
    def name(self) -> str:
        return self.alias or str(self.type)


@dataclass(frozen=True)
class EventGroup:
    """`operator` is SEQ, AND, OR or NOT."""

    operator: str
    members: tuple[EventNode, ...]
    position: Position | None = field(default=None, compare=False, repr=False)


EventNode = EventLeaf | EventGroup


@dataclass(frozen=True)
class BookClause:
    """`stream TYPE column [PARTITION BY column, …]`."""

    stream: str
    type: str
    partition: tuple[str, ...] = ()
    position: Position | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Event:
    """EVENT … FROM …; `items` is None without RETURN."""

    expression: EventNode
    book: BookClause
    where: Node | None = None
    within: int | None = None
    first: bool = False
    items: tuple[Item, ...] | None = None
    #: The statement as written, and its expression.
    text: str = field(default="", compare=False, repr=False)
    expression_text: str = field(default="", compare=False, repr=False)
    position: Position | None = field(default=None, compare=False, repr=False)


#: What a query, or a derived stream, is made of.
Body = Select | Union | Event


@dataclass(frozen=True)
class WithOption:
    """`name = value` in WITH."""

    name: str
    value: Value
    position: Position | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class ColumnDefinition:
    name: str
    type: DataType
    position: Position | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class CreateStream:
    name: str
    columns: tuple[ColumnDefinition, ...]
    options: tuple[WithOption, ...] = ()
    position: Position | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class CreateDerived:
    """CREATE STREAM … AS."""

    name: str
    body: Body
    options: tuple[WithOption, ...] = ()
    position: Position | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class CreateTable:
    name: str
    columns: tuple[ColumnDefinition, ...]
    options: tuple[WithOption, ...] = ()
    position: Position | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class CreateQuery:
    name: str
    select: Body
    options: tuple[WithOption, ...] = ()
    position: Position | None = field(default=None, compare=False, repr=False)

    @property
    def text(self) -> str:
        return self.select.text


@dataclass(frozen=True)
class CreateSink:
    """`query` is None for `FOR ALL`."""

    name: str
    query: str | None
    options: tuple[WithOption, ...] = ()
    position: Position | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class CreateConstraints:
    """Rules as written, or the path of a workflow that they are taken from."""

    name: str
    book: BookClause
    rules: tuple[Rule, ...] = ()
    workflow: str | None = None
    options: tuple[WithOption, ...] = ()
    text: str = field(default="", compare=False, repr=False)
    position: Position | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class CreateFunction:
    """A function of one's own; `target` is `module:attribute`, or empty where a program hands the code over."""

    name: str
    arguments: tuple[ColumnDefinition, ...]
    result: DataType
    target: str = ""
    options: tuple[WithOption, ...] = ()
    position: Position | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class CreatePunctuation:
    """Punctuations that rows of another stream give; `at` is None where they stand at these rows."""

    name: str
    stream: str
    columns: tuple[str, ...]
    source: str
    source_columns: tuple[str, ...]
    at: str | None = None
    position: Position | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Punctuate:
    """PUNCTUATE stream WHERE … AT TIMESTAMP '…'."""

    stream: str
    where: Node
    at: Constant
    #: The condition as written.
    text: str = field(default="", compare=False, repr=False)
    position: Position | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class HeraldStatement:
    """HERALD stream WHERE … FOR … AT TIMESTAMP '…'; one of `rows` and `micros` is given."""

    stream: str
    where: Node
    rows: int | None
    micros: int | None
    at: Constant
    #: Condition and span as written.
    text: str = field(default="", compare=False, repr=False)
    position: Position | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class CreateTemplate:
    name: str
    select: Select
    options: tuple[WithOption, ...] = ()
    position: Position | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class CreateRequests:
    """A stream of requests to a template."""

    name: str
    columns: tuple[ColumnDefinition, ...]
    template: str
    options: tuple[WithOption, ...] = ()
    position: Position | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class RequestStatement:
    """REQUEST … FROM template. `items` is empty for `*`; `group_by` is None where it is not written, empty for `()`."""

    items: tuple[Name, ...]
    template: str
    window: Window | None = None
    where: Node | None = None
    group_by: tuple[Name, ...] | None = None
    as_of: Constant | None = None
    #: The request as written.
    text: str = field(default="", compare=False, repr=False)
    position: Position | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Drop:
    """`kind` is stream, table, query, sink, template, requests, constraints or punctuation."""

    kind: str
    name: str
    position: Position | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Set:
    name: str
    value: Value
    position: Position | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Explain:
    """EXPLAIN of a query or template by name, or of a SELECT or a REQUEST on the spot."""

    target: str | Body | RequestStatement
    analyze: bool = False
    #: What a name stands for: query or template.
    kind: str = "query"
    position: Position | None = field(default=None, compare=False, repr=False)


Statement = (
    CreateStream
    | CreateDerived
    | CreateTable
    | CreateQuery
    | CreateSink
    | CreateTemplate
    | CreateRequests
    | CreateConstraints
    | CreatePunctuation
    | CreateFunction
    | Punctuate
    | HeraldStatement
    | RequestStatement
    | Drop
    | Set
    | Explain
    | Select
    | Union
    | Event
)
