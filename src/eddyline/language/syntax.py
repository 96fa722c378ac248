"""The syntax tree: frozen nodes, one class per form of the language.

Answer   Statements and, inside them, expressions whose names are not resolved yet. Nodes compare by what they say:
         positions and the original text take no part in `==`, so a rendered statement equals the one it came from.
Limits   `language/binding/` checks names and types against the catalog; a node may name what is not there.
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
class Placed:
    """A node with its position in the text, which `==` does not compare."""

    position: Position | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True)
class Statement(Placed):
    """What a script holds between semicolons."""


@dataclass(frozen=True)
class WrittenStatement(Statement):
    """A statement that keeps what was written: all of it, or of PUNCTUATE the condition, of HERALD condition and span."""

    text: str = field(default="", compare=False, repr=False, kw_only=True)


@dataclass(frozen=True)
class Name(Placed):
    """A column, perhaps with the alias it belongs to."""

    name: str
    table: str | None = None


@dataclass(frozen=True)
class Constant(Placed):
    """A literal. `kind` is null, boolean, integer, double, string, timestamp, date or interval; the last three hold
    their text. Of kind integers, doubles or strings it is the values of a long IN list."""

    kind: str
    value: object


@dataclass(frozen=True)
class Apply(Placed):
    """An operator or a function, by canonical lower-case name; `star` is the argument of COUNT(*)."""

    function: str
    args: tuple[Node, ...]
    distinct: bool = False
    star: bool = False
    #: FILTER (WHERE …) of an aggregate in which NULL is a value.
    where: Node | None = None


@dataclass(frozen=True)
class Cast(Placed):
    operand: Node
    type: DataType


@dataclass(frozen=True)
class Ordered:
    """One expression of ORDER BY; without a word nulls come last."""

    value: Node
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True)
class Over(Placed):
    """`function(args) OVER (PARTITION BY … ORDER BY …)`."""

    function: str
    args: tuple[Node, ...]
    partition: tuple[Node, ...] = ()
    order: tuple[Ordered, ...] = ()


Node = Name | Constant | Apply | Cast | Over


@dataclass(frozen=True)
class Star(Placed):
    """`*` or `alias.*` in SELECT."""

    table: str | None = None


@dataclass(frozen=True)
class Item(Placed):
    """One entry of SELECT; `alias` is None where no name was given."""

    value: Node | Star
    alias: str | None = None


@dataclass(frozen=True)
class FromEntry(Placed):
    """One entry of FROM. `join` is how it is joined with the entries before it: ",", CROSS, INNER, LEFT, RIGHT, FULL,
    LATEST or LEFT LATEST; all but the first two have `on`."""

    name: str
    alias: str | None = None
    window: Window | None = None
    join: str = ","
    on: Node | None = None
    #: Of `TABLE(TUMBLE(…))`: the group window in the form that GROUP BY has.
    group_window: Apply | None = None
    #: Of `(SELECT …)`; the name is empty.
    query: Body | None = None
    #: Of `UNNEST(…) AS name`, or `AS name(alias)`: the array.
    unnest: Node | None = None


@dataclass(frozen=True)
class Select(WrittenStatement):
    items: tuple[Item, ...]
    sources: tuple[FromEntry, ...]
    where: Node | None = None
    group_by: tuple[Node, ...] = ()
    having: Node | None = None
    distinct: bool = False
    emit: Emit | None = None
    emit_position: Position | None = field(default=None, compare=False, repr=False)
    #: WITH name AS (…): queries that FROM may name.
    named: tuple[tuple[str, Body], ...] = ()
    qualify: Node | None = None
    order_by: tuple[Ordered, ...] = ()
    limit: int | None = None
    #: [NOT] EXISTS (…) among the conditions of WHERE.
    exists: tuple[Exists, ...] = ()


@dataclass(frozen=True)
class Exists(Placed):
    """[NOT] EXISTS (SELECT …)."""

    select: Select
    negated: bool


@dataclass(frozen=True)
class Union(WrittenStatement):
    """SELECT … UNION ALL SELECT …"""

    parts: tuple[Select, ...]
    #: WITH name AS (…), before the first SELECT.
    named: tuple[tuple[str, Body], ...] = ()


@dataclass(frozen=True)
class EventLeaf(Placed):
    """One event of a pattern: its type, a condition on it, and its alias."""

    type: EventType
    #: Whether the type was written bare, so that it serves as the name.
    bare: bool
    condition: Node | None = None
    alias: str | None = None

    @property
    def name(self) -> str:
        return self.alias or str(self.type)


@dataclass(frozen=True)
class EventGroup(Placed):
    """`operator` is SEQ, AND, OR or NOT."""

    operator: str
    members: tuple[EventNode, ...]


EventNode = EventLeaf | EventGroup


@dataclass(frozen=True)
class BookClause(Placed):
    """`stream TYPE column [PARTITION BY column, …]`."""

    stream: str
    type: str
    partition: tuple[str, ...] = ()


@dataclass(frozen=True)
class Event(WrittenStatement):
    """EVENT … FROM …; `items` is None without RETURN."""

    expression: EventNode
    book: BookClause
    where: Node | None = None
    within: int | None = None
    first: bool = False
    items: tuple[Item, ...] | None = None
    #: The expression as written.
    expression_text: str = field(default="", compare=False, repr=False)


#: What a query, or a derived stream, is made of.
Body = Select | Union | Event


@dataclass(frozen=True)
class WithOption(Placed):
    """`name = value` in WITH."""

    name: str
    value: Value


@dataclass(frozen=True)
class ColumnDefinition(Placed):
    name: str
    type: DataType


@dataclass(frozen=True)
class CreateStream(Statement):
    name: str
    columns: tuple[ColumnDefinition, ...]
    options: tuple[WithOption, ...] = ()


@dataclass(frozen=True)
class CreateDerived(Statement):
    """CREATE STREAM … AS."""

    name: str
    body: Body
    options: tuple[WithOption, ...] = ()


@dataclass(frozen=True)
class CreateTable(Statement):
    name: str
    columns: tuple[ColumnDefinition, ...]
    options: tuple[WithOption, ...] = ()


@dataclass(frozen=True)
class CreateQuery(Statement):
    name: str
    select: Body
    options: tuple[WithOption, ...] = ()

    @property
    def text(self) -> str:
        return self.select.text


@dataclass(frozen=True)
class CreateSink(Statement):
    """`query` is None for `FOR ALL`."""

    name: str
    query: str | None
    options: tuple[WithOption, ...] = ()


@dataclass(frozen=True)
class CreateConstraints(WrittenStatement):
    """Rules as written, or the path of a workflow that they are taken from."""

    name: str
    book: BookClause
    rules: tuple[Rule, ...] = ()
    workflow: str | None = None
    options: tuple[WithOption, ...] = ()


@dataclass(frozen=True)
class CreateFunction(Statement):
    """A function of one's own; `target` is `module:attribute`, or empty where a program hands the code over."""

    name: str
    arguments: tuple[ColumnDefinition, ...]
    result: DataType
    target: str = ""
    options: tuple[WithOption, ...] = ()


@dataclass(frozen=True)
class CreatePunctuation(Statement):
    """Punctuations that are derived from rows of another stream; `at` is None if they have the times of these rows."""

    name: str
    stream: str
    columns: tuple[str, ...]
    source: str
    source_columns: tuple[str, ...]
    at: str | None = None


@dataclass(frozen=True)
class Punctuate(WrittenStatement):
    """PUNCTUATE stream WHERE … AT TIMESTAMP '…'."""

    stream: str
    where: Node
    at: Constant


@dataclass(frozen=True)
class HeraldStatement(WrittenStatement):
    """HERALD stream WHERE … FOR … AT TIMESTAMP '…'; one of `rows` and `micros` is given."""

    stream: str
    where: Node
    rows: int | None
    micros: int | None
    at: Constant


@dataclass(frozen=True)
class CreateTemplate(Statement):
    name: str
    select: Select
    options: tuple[WithOption, ...] = ()


@dataclass(frozen=True)
class CreateRequests(Statement):
    """A stream of requests to a template."""

    name: str
    columns: tuple[ColumnDefinition, ...]
    template: str
    options: tuple[WithOption, ...] = ()


@dataclass(frozen=True)
class RequestStatement(WrittenStatement):
    """REQUEST … FROM template. `items` is empty for `*`; `group_by` is None where it is not written, empty for `()`."""

    items: tuple[Name, ...]
    template: str
    window: Window | None = None
    where: Node | None = None
    group_by: tuple[Name, ...] | None = None
    as_of: Constant | None = None


@dataclass(frozen=True)
class Drop(Statement):
    """`kind` is stream, table, query, sink, template, requests, constraints or punctuation."""

    kind: str
    name: str


@dataclass(frozen=True)
class Set(Statement):
    name: str
    value: Value


@dataclass(frozen=True)
class Explain(Statement):
    """EXPLAIN of a query or template by name, or of a SELECT or a REQUEST on the spot."""

    target: str | Body | RequestStatement
    analyze: bool = False
    #: Whether a name is that of a query or of a template.
    kind: str = "query"
