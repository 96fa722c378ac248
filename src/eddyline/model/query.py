"""A bound query: every name resolved, every expression typed.

Answer   `language/binding/` makes a `BoundQuery`, and `plan/` plans it: references with windows, WHERE as conjuncts,
         outputs, grouping.
Limits   A bound query has no plan, no cost and no operator.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from eddyline.model.datatypes import DataType
from eddyline.model.expressions.expression import Expression, has_aggregate
from eddyline.model.patterns.pattern import EventPattern
from eddyline.model.ranking import Followed, Ranking
from eddyline.model.schema import Schema, Stream
from eddyline.model.window import Window
from eddyline.settings import Settings

_QUOTED_OR_BLANK = re.compile(r"'[^']*'|\"[^\"]*\"|\s+")


def one_line(text: str) -> str:
    """A statement on one line; blanks within quotes stay.

    >>> one_line("SELECT  'a  b'\\n FROM s ")
    "SELECT 'a  b' FROM s"
    """
    return _QUOTED_OR_BLANK.sub(lambda found: " " if found[0].isspace() else found[0], text.strip())


@dataclass(frozen=True, slots=True)
class Reference:
    """One entry of FROM. `window` is None exactly for static tables."""

    alias: str
    source: str
    window: Window | None
    #: Whether the source is a derived stream.
    derived: bool = False

    @property
    def is_table(self) -> bool:
        return self.window is None


@dataclass(frozen=True, slots=True)
class OutputColumn:
    name: str
    expression: Expression

    @property
    def type(self) -> DataType:
        return self.expression.type


@dataclass(frozen=True, slots=True)
class Emit:
    """EMIT ON CHANGE | EVERY d | ON CLOSE."""

    kind: str = "change"
    period: int = 0

    def __str__(self) -> str:
        from eddyline.model.window import span_text

        return {"change": "ON CHANGE", "every": f"EVERY {span_text(self.period)}", "close": "ON CLOSE"}[self.kind]


@dataclass(frozen=True, slots=True)
class GroupWindow:
    """TUMBLE, HOP or CUMULATE in GROUP BY: which windows of the event time a row belongs to.

    HOP and CUMULATE put a row into several windows. The grouping expressions give the first of them; the others follow
    at `step`.
    """

    kind: str
    #: The length of a window; of CUMULATE the length of the longest.
    span: int
    #: From one window of a row to the next; TUMBLE has one window per row.
    step: int
    #: The places of the window's beginning and end among the grouping expressions; None: it is not selected.
    start: int | None
    end: int | None


@dataclass(frozen=True, slots=True)
class Keeping:
    """The results of a join of two references that are no plain combinations, by kind.

    Outer: combinations, and the rows of `aliases` that have no partner. Anti: these rows alone. Semi: each row of the
    one alias once, at its first partner. Pushed: the numbers of its rows, each when another row pushes it out of its
    window. Rows without a partner are results only if they satisfy `conditions`.
    """

    kind: str
    aliases: tuple[str, ...]
    conditions: tuple[Expression, ...] = ()
    #: The aliases whose partners are rows of a stream that is declared with punctuations, which may close them.
    closed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RowQuestion:
    """A question about the row of an alias, and the answer that is wanted."""

    question: int
    alias: str
    wanted: bool


@dataclass(frozen=True, slots=True)
class Living:
    """The kinds of rows in a stream of live combinations, by the number in its column `part$`.

    0 and more: a result of this kind, which counts while the questions about its rows have the wanted answers. -1 - q: a
    partner of a row of the alias of question q. Below these: a row of an alias has been pushed out of its window.
    """

    kinds: tuple[tuple[RowQuestion, ...], ...]
    #: Per question the alias of the rows that it tests.
    questions: tuple[str, ...]
    #: The aliases whose rows may be pushed out of their windows.
    pushed: tuple[str, ...]
    #: The aliases whose row numbers are columns of the stream.
    named: tuple[str, ...]


@dataclass(frozen=True)
class UnnestedTable:
    """A static table with one row per element of its arrays: what UNNEST makes of another table, for one query."""

    name: str
    #: The table that it is made of, which may be such a table too.
    source: str
    #: Over the columns of that table.
    array: Expression
    #: The columns of that table, and the element as the last one.
    schema: Schema


@dataclass(frozen=True)
class BoundQuery:
    name: str
    references: tuple[Reference, ...]
    #: WHERE and all ON conditions, split at AND.
    where: tuple[Expression, ...]
    outputs: tuple[OutputColumn, ...]
    group_by: tuple[Expression, ...] = ()
    having: Expression | None = None
    distinct: bool = False
    emit: Emit = field(default_factory=Emit)
    settings: Settings = field(default_factory=Settings)
    #: The SELECT as written, for messages, and to see whether a query has changed.
    text: str = ""
    #: Of an EVENT query, which has no conditions beside it and one reference.
    pattern: EventPattern | None = None
    group_window: GroupWindow | None = None
    #: EMIT ON CLOSE: punctuations end groups, not a time bucket.
    by_promises: bool = False
    #: Which rows are the first ones of their partition: QUALIFY, or ORDER BY … LIMIT.
    ranking: Ranking | None = None
    #: LAG, FIRST_VALUE and LAST_VALUE; outputs read them as columns of the one stream.
    followed: tuple[Followed, ...] = ()
    #: Of a join that keeps rows without a partner, or tests whether rows have one.
    keeping: Keeping | None = None
    #: Of an aggregate or ranking over an outer join of live rows, whose one reference is a stream of live combinations.
    living: Living | None = None
    #: Columns of the one stream that are event times of joined rows, and how much later than these its rows may come.
    delays: tuple[tuple[str, int], ...] = ()
    #: The derived stream whose rows are the results; None: the results are delivered.
    feeds: Stream | None = None
    #: The queries behind subqueries, innermost first. They are registered and dropped with this one.
    makers: tuple[BoundQuery, ...] = ()
    #: The unnested tables among its references, in the order in which they are made of each other.
    unnested: tuple[UnnestedTable, ...] = ()

    @property
    def is_aggregate(self) -> bool:
        return (
            bool(self.group_by)
            or self.distinct
            or self.having is not None
            or any(has_aggregate(o.expression) for o in self.outputs)
        )

    @property
    def has_groups(self) -> bool:
        """Whether a result depends on the rows of a group or partition."""
        return self.is_aggregate or self.ranking is not None or bool(self.followed)

    @property
    def computed(self) -> tuple[Expression, ...]:
        """The expressions of the outputs, and HAVING."""
        return (*(o.expression for o in self.outputs), *(() if self.having is None else (self.having,)))

    @property
    def identity(self) -> str:
        """The text of a query, and the order of the stream that it makes: a checkpoint continues a query only if they
        are the same."""
        text = one_line(self.text)
        return text if self.feeds is None or self.feeds.sequence is None else f"{text} (sequence {self.feeds.sequence})"

    @property
    def is_changelog(self) -> bool:
        """Whether results may be taken back."""
        return (self.is_aggregate or self.ranking is not None) and self.emit.kind != "close"

    @property
    def announces(self) -> bool:
        """Whether the query announces finished values; for a derived stream also without `punctuations`, because they
        end groups of its readers."""
        return self.settings.propagate != "off" and (self.settings.punctuations == "on" or self.feeds is not None)

    @property
    def streams(self) -> tuple[Reference, ...]:
        return tuple(r for r in self.references if not r.is_table)

    @property
    def is_composed(self) -> bool:
        """Whether the query makes a derived stream, or reads one."""
        return self.feeds is not None or bool(self.makers) or any(r.derived for r in self.references)

    def reference(self, alias: str) -> Reference:
        return next(r for r in self.references if r.alias == alias)
