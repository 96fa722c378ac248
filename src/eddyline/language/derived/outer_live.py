"""Aggregates and rankings of outer joins of live rows.

Answer   `LiveJoins.made` makes the stream that such a query reads. Its rows are of three sorts:

             results of a kind    {a, b}, {a}, …       count while they are in their windows and their questions have the
                                                       wanted answers
             partners             a row of a has a b   while both are in their windows
             rows pushed out      of [ROWS n] and [PARTITION BY … ROWS n]

         `outer_kinds.py` finds the kinds and questions. Static tables are joined like streams without a window.
Limits   Every result has a row of a stream. The anchors of questions are streams.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from eddyline.errors import Unsupported
from eddyline.language.derived.outer_kinds import Joins
from eddyline.model.datatypes import BIGINT, TIMESTAMP
from eddyline.model.expressions.expression import Call, ColumnRef, Expression, Literal
from eddyline.model.expressions.functions import resolve
from eddyline.model.query import Keeping, Living, OutputColumn, Reference, RowQuestion
from eddyline.model.schema import ENDS, PART, ROW, Column, Stream
from eddyline.model.window import Now, PartitionedRows, Range, Rows

if TYPE_CHECKING:
    from eddyline.language.derived.derive import Derivation


@dataclass
class LiveJoins:
    """The joins of a FROM; `times` are the event-time columns of its streams, by alias."""

    derivation: Derivation
    text: str
    joins: Joins
    columns: Sequence[ColumnRef]
    times: dict[str, str]
    always: tuple[Expression, ...] = ()

    def made(self, grouped: bool) -> tuple[Stream, Living]:
        """The stream of live combinations, and what its rows are."""
        joins = self.joins
        tables = {r.alias for r in joins.references if r.is_table}
        self._check(tables)
        questions = [*joins.questions, *joins.tested]
        wanted = {question.key: test.join == "EXISTS" for question, test in zip(joins.tested, joins.tests, strict=True)}
        references = [*joins.references, *(test.reference for test in joins.tests)]
        pushed = [r for r in references if isinstance(r.window, Rows | PartitionedRows)]
        anchors = {question.anchor.alias for question in questions}
        self.named = [r.alias for r in references if r.alias in anchors or r in pushed]
        kinds = [
            tuple(
                RowQuestion(questions.index(q), q.anchor.alias, wanted.get(q.key, False))
                for q in (*kind.without, *joins.tested)
            )
            for kind in joins.kinds
        ]
        streams = {r.alias for r in references if not r.is_table}
        alone = {next(iter(kind.aliases)) for kind in joins.kinds if len(kind.aliases) == 1}
        # Without GROUP BY the one group begins with the first row of any stream.
        beginning = [r for r in references if not grouped and r.alias in streams - alone]
        makers = len(kinds) + len(questions) + len(pushed) + len(beginning)
        stream = self._stream(makers)
        names = iter(stream.makers)
        for number, kind in enumerate(joins.kinds):
            here = [r for r in joins.references if r.alias in kind.aliases]
            where = (*self.always, *joins.conditions(kind.aliases))
            self._maker(next(names), here, where, stream, number, {c: c for c in self.columns if c.ref in kind.aliases})
        for number, question in enumerate(questions):
            self._maker(next(names), [question.anchor, *question.others], question.conditions, stream, -1 - number, {})
        for number, reference in enumerate(pushed):
            keeping = Keeping("pushed", (reference.alias,))
            self._maker(next(names), [reference], (), stream, -1 - len(questions) - number, {}, keeping)
        for reference in beginning:
            self._maker(next(names), [reference], (), stream, -1 - len(questions) - len(pushed), {})
        of_questions = tuple(question.anchor.alias for question in questions)
        return stream, Living(tuple(kinds), of_questions, tuple(r.alias for r in pushed), tuple(self.named))

    def _check(self, tables: set[str]) -> None:
        for kind in self.joins.kinds:
            if kind.aliases <= tables:
                alias = next(iter(kind.aliases))
                raise Unsupported(
                    f"rows of table {alias} without a partner are not supported",
                    detail="a table brings no rows in time",
                    hint="keep the rows of the stream: stream LEFT JOIN table",
                    position=self.joins.branches[0].position,
                )
        for question in (*self.joins.questions, *self.joins.tested):
            if question.anchor.is_table:
                raise Unsupported(
                    f"whether a row of table {question.anchor.alias} has a partner is not tested",
                    detail="an aggregate of an outer join tests rows of streams",
                    hint="compare with a column of a stream in ON",
                    position=question.position,
                )

    def _maker(
        self,
        name: str,
        references: Sequence[Reference],
        where: Sequence[Expression],
        stream: Stream,
        part: int,
        columns: dict[ColumnRef, Expression],
        keeping: Keeping | None = None,
    ) -> None:
        here = {r.alias for r in references}
        outputs = [OutputColumn(f"{c.ref}.{c.column}", columns.get(c, Literal(None, c.type))) for c in self.columns]
        for alias in self.named:
            row: Expression = ColumnRef(alias, ROW, BIGINT) if alias in here else Literal(-1, BIGINT)
            outputs.append(OutputColumn(f"{alias}.{ROW}", row))
        outputs += [OutputColumn(PART, Literal(part, BIGINT)), OutputColumn(ENDS, self._ends(references))]
        settings = replace(self.derivation.settings, propagate="off")
        self.derivation.add_maker(name, references, where, outputs, stream, self.text, keeping, settings)

    def _ends(self, references: Sequence[Reference]) -> Expression:
        """The last instant at which windows of time hold a combination, in microseconds; NULL: there is none."""
        found: list[Expression] = []
        for reference in references:
            if isinstance(reference.window, Range | Now):
                span = reference.window.micros if isinstance(reference.window, Range) else 0
                time = Call("epoch_us", (ColumnRef(reference.alias, self.times[reference.alias], TIMESTAMP),), BIGINT)
                found.append(Call("+", (time, Literal(span, BIGINT)), BIGINT))
        if not found:
            return Literal(None, BIGINT)
        return found[0] if len(found) == 1 else resolve("least", tuple(found))

    def _stream(self, makers: int) -> Stream:
        columns = [Column(f"{c.ref}.{c.column}", c.type) for c in self.columns]
        columns += [Column(f"{alias}.{ROW}", BIGINT) for alias in self.named]
        return self.derivation.unordered_stream([*columns, Column(PART, BIGINT), Column(ENDS, BIGINT)], makers)
