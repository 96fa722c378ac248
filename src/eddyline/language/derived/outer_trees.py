"""Trees of joins over three streams and more, and [NOT] EXISTS beside joins of streams.

Answer   `Tree.made` makes the queries behind such a FROM. A result has some of the references, by whether the rows of
         *anchors* have partners (`outer_kinds.py`):

             FROM a LEFT JOIN b ON p(a, b) LEFT JOIN c ON q(a, c)
               alone:            rows of a without b, rows of a without c    anti joins, each row with its number
               (a, b, c)         inner join
               (a, b, null)      a, b with a without c                       joined by the number of a
               (a, null, c)      a, c with a without b
               (a, null, null)   a without b with a without c

         [NOT] EXISTS tests the rows of an anchor too: every result is joined with the rows for which it holds.
         A row of the anchor is certain to have no partner when its window has ended, or when a punctuation closes its
         partners.
Limits   Anchors have a window that ends, by time or by rows, or partners that punctuations close: those of one stream,
         not combinations of several. How long a row of [ROWS n] or [UNBOUNDED] waits is not known: what was found for
         it is kept without end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from eddyline.errors import Unsupported
from eddyline.language.derived.outer_kinds import Joins, OuterKind, Question, closes
from eddyline.model.datatypes import BIGINT, BOOLEAN
from eddyline.model.expressions.expression import Call, ColumnRef, Expression, Literal, with_columns
from eddyline.model.query import Keeping, OutputColumn, Reference
from eddyline.model.schema import ROW, Column, Stream
from eddyline.model.window import UNBOUNDED, Now, Range, Unbounded, Window

if TYPE_CHECKING:
    from eddyline.language.derived.derive import Derivation


@dataclass
class Tree:
    """The joins of a FROM; `always` are conditions of WHERE on references that every result has."""

    derivation: Derivation
    text: str
    joins: Joins
    #: The columns that are read, in the order of FROM.
    columns: Sequence[ColumnRef]
    #: Every result is certain by time: an anchor with [ROWS n] is refused.
    by_time: bool = False
    always: tuple[Expression, ...] = ()
    #: By question, the derived stream of the anchor's rows without a partner; of EXISTS that of the rows with one.
    chosen: dict[str, Stream] = field(default_factory=dict)

    def made(self) -> Stream:
        """The stream of all results."""
        joins = self.joins
        for question in (*joins.questions, *joins.tested):
            _check_certain(question, self.by_time, self._closes(question))
        for question in joins.questions:
            self.chosen[question.key] = self._chosen_rows(question, "anti")
        for question, test in zip(joins.tested, joins.tests, strict=True):
            self.chosen[question.key] = self._chosen_rows(question, "semi" if test.join == "EXISTS" else "anti")
        stream = self._stream(self.columns, len(joins.kinds))
        for name, kind in zip(stream.makers, joins.kinds, strict=True):
            self._result(name, kind, stream)
        return stream

    # -- queries

    def _chosen_rows(self, question: Question, kind: str) -> Stream:
        """Rows of the anchor without a partner, or with one: their numbers, and the columns that are read."""
        anchor = question.anchor
        columns = [_row(anchor.alias), *(c for c in self.columns if c.ref == anchor.alias)]
        stream = self._stream(columns)
        outputs = [OutputColumn(_name(c), c) for c in columns]
        references = (anchor, *question.others)
        keeping = Keeping(kind, (anchor.alias,), closed=(anchor.alias,) if self._closes(question) else ())
        add = self.derivation.add_maker
        add(stream.makers[0], references, question.conditions, outputs, stream, self.text, keeping)
        return stream

    def _closes(self, question: Question) -> bool:
        """Whether punctuations can end the wait of a row of the anchor for a partner."""
        if len(question.others) > 1:
            return False
        (other,) = question.others
        return closes(question.anchor.alias, other, self.derivation.catalog.relation(other.source), question.conditions)

    def _result(self, name: str, kind: OuterKind, stream: Stream) -> None:
        """The maker of one kind of results; what it needs is made before it."""
        here = kind.aliases
        questions = [*kind.without, *self.joins.tested]
        references = [r for r in self.joins.references if r.alias in here]
        where = (*self.always, *self.joins.conditions(here))
        if not questions:
            outputs = [self._output(c, here, {}) for c in self.columns]
            self.derivation.add_maker(name, references, where, outputs, stream, self.text)
            return
        base, names, known, further = self._base(references, where, questions)
        window = _reach(questions)
        joined = [Reference("found", base.name, window if further else UNBOUNDED, True)]
        conditions = [_over(c, names) for c in known]
        for number, question in enumerate(further):
            chosen, row = self.chosen[question.key], _row(question.anchor.alias)
            joined.append(Reference(f"alone{number}", chosen.name, window, True))
            conditions.append(Call("=", (_over(row, names), ColumnRef(f"alone{number}", _name(row), BIGINT)), BOOLEAN))
        outputs = [self._output(c, here, names) for c in self.columns]
        self.derivation.add_maker(name, joined, conditions, outputs, stream, self.text)

    def _base(
        self, references: Sequence[Reference], where: tuple[Expression, ...], questions: list[Question]
    ) -> tuple[Stream, Mapping[tuple[str, str], ColumnRef], tuple[Expression, ...], list[Question]]:
        """What results of a kind are made from: a stream, its names, the conditions that it has not been tested with,
        and the questions that it does not answer."""
        if len(references) == 1:
            first = self.chosen[questions[0].key]
            return first, self._names(first), where, questions[1:]
        kind = {r.alias for r in references}
        columns = [c for c in self.columns if c.ref in kind]
        columns += dict.fromkeys(_row(question.anchor.alias) for question in questions)
        stream = self._stream(columns)
        outputs = [OutputColumn(_name(c), c) for c in columns]
        self.derivation.add_maker(stream.makers[0], references, where, outputs, stream, self.text)
        return stream, self._names(stream), (), questions

    @staticmethod
    def _names(stream: Stream) -> dict[tuple[str, str], ColumnRef]:
        found = {}
        for column in stream.schema.columns:
            alias, _, name = column.name.partition(".")
            found[alias, name] = ColumnRef("found", column.name, column.type)
        return found

    @staticmethod
    def _output(column: ColumnRef, kind: frozenset[str], names: Mapping[tuple[str, str], ColumnRef]) -> OutputColumn:
        if column.ref not in kind:
            return OutputColumn(_name(column), Literal(None, column.type))
        return OutputColumn(_name(column), _over(column, names))

    def _stream(self, columns: Sequence[ColumnRef], makers: int = 1) -> Stream:
        return self.derivation.unordered_stream([Column(_name(c), c.type) for c in columns], makers)


def _check_certain(question: Question, by_time: bool, closed: bool) -> None:
    anchor = question.anchor
    if isinstance(anchor.window, Range | Now) or not (by_time or (isinstance(anchor.window, Unbounded) and not closed)):
        return
    ends = "[RANGE 10 MINUTES] or [NOW]" if by_time else "[RANGE 10 MINUTES], [ROWS 100] or [NOW]"
    others = [r.alias for r in question.others]
    if by_time:
        more = ""
    elif len(others) == 1:
        more = f"; or declare punctuations of {question.others[0].source}, and compare {others[0]} and {anchor.alias} by = in ON"
    else:
        more = "; punctuations do not close combinations of several streams"
    raise Unsupported(
        f"whether a row of {anchor.alias} [{anchor.window}] has a partner is not certain in time",
        detail=f"rows of {' and '.join(others)} to come can be its partners",
        hint=f"give {anchor.alias} a window that ends: {ends}{more}",
        position=question.position,
    )


def _name(column: ColumnRef) -> str:
    return f"{column.ref}.{column.column}"


def _row(alias: str) -> ColumnRef:
    """The number of a row in its stream."""
    return ColumnRef(alias, ROW, BIGINT)


def _reach(questions: Sequence[Question]) -> Window:
    """How far apart in time the parts of a result can be. Without a window by time, the row that pushes an anchor out of
    [ROWS n], or a punctuation, comes at any time."""
    if any(not isinstance(question.anchor.window, Range | Now) for question in questions):
        return UNBOUNDED
    return Range(2 * max(_span(question.anchor) for question in questions))


def _span(anchor: Reference) -> int:
    return anchor.window.micros if isinstance(anchor.window, Range) else 0


def _over(e: Expression, names: Mapping[tuple[str, str], ColumnRef]) -> Expression:
    """An expression in the names of a derived stream."""
    return with_columns(e, lambda column: names.get((str(column.ref), column.column), column))
