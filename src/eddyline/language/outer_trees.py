"""Trees of LEFT and inner joins over three streams and more, and [NOT] EXISTS beside joins of streams.

Answer   `Tree.made` makes the queries behind such a FROM. A LEFT JOIN asks whether the rows of one reference before it, its *anchor*, have
         a partner; so a result has the inner references, and each of the others with its anchor, or not:

             FROM a LEFT JOIN b ON p(a, b) LEFT JOIN c ON q(a, c)
               alone:  rows of a without b, rows of a without c            anti joins, each row with its number
               (a, b, c)       inner join                                   (a, b, null)      a, b  with  a without c, by the number of a
               (a, null, c)    a, c  with  a without b                      (a, null, null)   a without b  with  a without c

         [NOT] EXISTS is asked about the rows of an anchor too: every result is met with the rows for which it holds.
Limits   ON of a LEFT JOIN reads the joined reference and one other; the anchor has a window by time. At most 16 kinds of results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations
from typing import Protocol

from eddyline.errors import Position, Unsupported
from eddyline.language.catalog import Catalog
from eddyline.model.datatypes import BIGINT, BOOLEAN, TIMESTAMP
from eddyline.model.expression import Call, ColumnRef, Expression, Literal, refs_of
from eddyline.model.query import BoundQuery, Keeping, Output, Reference
from eddyline.model.schema import DERIVED_TIME, ROW, Column, Schema, Stream
from eddyline.model.window import UNBOUNDED, Now, Range
from eddyline.settings import Settings

MOST_KINDS = 16
_HINT = "build it of two steps: FROM (SELECT … FROM a LEFT JOIN b ON …) x [RANGE 1 MINUTE] LEFT JOIN c …"


class Derivation(Protocol):
    """What is derived on the way, for one statement."""

    settings: Settings
    catalog: Catalog
    makers: list[BoundQuery]

    def next_name(self) -> str: ...


@dataclass(frozen=True)
class Branch:
    """One stream of FROM after the first."""

    reference: Reference
    #: LEFT, or anything else for an inner join; of a test EXISTS or NOT EXISTS.
    join: str
    on: tuple[Expression, ...]
    position: Position | None


@dataclass
class Tree:
    """The joins of a FROM; `always` are conditions of WHERE on references that every result has."""

    derivation: Derivation
    text: str
    root: Reference
    branches: Sequence[Branch]
    #: The columns that are read, in the order of FROM.
    columns: Sequence[ColumnRef]
    always: tuple[Expression, ...] = ()
    tests: Sequence[Branch] = ()
    #: LEFT JOIN by alias, tests by number -> the reference whose rows have partners or none, and the derived stream of its rows without
    #: any, or of those that have one.
    anchors: dict[str, Reference] = field(default_factory=dict)
    alone: dict[str, Stream] = field(default_factory=dict)

    def made(self) -> Stream:
        """The stream of all results."""
        self._find_anchors()
        kinds = self._kinds()
        for branch in self._left:
            self.alone[branch.reference.alias] = self._chosen_rows(branch, self.anchors[branch.reference.alias], "anti")
        for number, test in enumerate(self.tests):
            self.alone[_key(number)] = self._chosen_rows(test, self.anchors[_key(number)], "semi" if test.join == "EXISTS" else "anti")
        stream = self._stream([Column(_name(c), c.type) for c in self.columns], len(kinds))
        for name, kind in zip(stream.makers, kinds, strict=True):
            self._result(name, kind, stream)
        return stream

    @property
    def _left(self) -> list[Branch]:
        return [branch for branch in self.branches if branch.join == "LEFT"]

    @property
    def inner(self) -> list[str]:
        """The references that every result has."""
        return [self.root.alias, *(b.reference.alias for b in self.branches if b.join != "LEFT")]

    def _find_anchors(self) -> None:
        references = {self.root.alias: self.root} | {b.reference.alias: b.reference for b in self.branches}
        for branch in self.branches:
            mine = branch.reference.alias
            if branch.join in ("RIGHT", "FULL"):
                raise Unsupported(f"{branch.join} JOIN among joins of three streams is not supported", hint=_HINT, position=branch.position)
            read = {str(ref) for c in branch.on for ref in refs_of(c)} - {mine}
            if branch.join != "LEFT":
                if not read <= set(self.inner):
                    raise Unsupported(
                        f"ON of {mine} reads {', '.join(sorted(read - set(self.inner)))}, which may be without a row",
                        hint="write the condition in WHERE",
                        position=branch.position,
                    )
                continue
            self.anchors[mine] = self._anchor(branch, read, references, f"LEFT JOIN {mine}")
        for number, test in enumerate(self.tests):
            read = {str(ref) for c in test.on for ref in refs_of(c)} - {test.reference.alias}
            self.anchors[_key(number)] = self._anchor(test, read, {alias: references[alias] for alias in self.inner}, test.join)

    def _anchor(self, branch: Branch, read: set[str], references: Mapping[str, Reference], what: str) -> Reference:
        """The one other reference that conditions read."""
        if len(read) > 1 or not read <= set(references):
            raise Unsupported(
                f"the condition of {what} reads {' and '.join(sorted(read))}",
                detail="whether there is a partner is asked about the rows of one stream, which every result has"
                if branch.join != "LEFT"
                else "whether there is a partner is asked about the rows of one stream",
                hint=_HINT,
                position=branch.position,
            )
        anchor = references[read.pop()] if read else self.root
        if not isinstance(anchor.window, Range | Now):
            raise Unsupported(
                f"whether a row of {anchor.alias} [{anchor.window}] has a partner is not certain in time",
                detail=f"rows of {branch.reference.alias} to come can be its partners",
                hint=f"give {anchor.alias} a window such as [RANGE 10 MINUTES]",
                position=branch.position,
            )
        return anchor

    def _kinds(self) -> list[frozenset[str]]:
        """Which references results have: the inner ones, and others together with their anchors."""
        left = [branch.reference.alias for branch in self._left]
        found = []
        for chosen in chain.from_iterable(combinations(left, size) for size in range(len(left), -1, -1)):
            kind = frozenset((*self.inner, *chosen))
            if all(self.anchors[alias].alias in kind for alias in chosen):
                found.append(kind)
        if len(found) > MOST_KINDS:
            raise Unsupported(
                f"{len(left)} LEFT JOINs give {len(found)} kinds of results", detail=f"at most {MOST_KINDS}", hint=_HINT,
                position=self._left[-1].position,
            )  # fmt: skip
        return found

    # -- queries

    def _chosen_rows(self, branch: Branch, anchor: Reference, kind: str) -> Stream:
        """Rows of the anchor without a partner, or with one: their numbers, and the columns that are read."""
        columns = [_row(anchor.alias), *(c for c in self.columns if c.ref == anchor.alias)]
        stream = self._stream([Column(_name(c), c.type) for c in columns])
        outputs = [Output(_name(c), c) for c in columns]
        self._maker(stream.makers[0], (anchor, branch.reference), branch.on, outputs, stream, Keeping(kind, (anchor.alias,)))
        return stream

    def _result(self, name: str, kind: frozenset[str], stream: Stream) -> None:
        """The maker of one kind of results; what it needs is made before it."""
        missing = [b.reference.alias for b in self._left if b.reference.alias not in kind and self.anchors[b.reference.alias].alias in kind]
        missing += [_key(number) for number in range(len(self.tests))]
        references = [r for r in (self.root, *(b.reference for b in self.branches)) if r.alias in kind]
        where = (*self.always, *(c for b in self.branches if b.reference.alias in kind for c in b.on))
        if not missing:
            self._maker(name, tuple(references), where, [self._output(c, kind, {}) for c in self.columns], stream)
            return
        base, names, known, further = self._base(references, where, missing)
        window = Range(2 * max(_span(self.anchors[alias]) for alias in missing))
        joined = [Reference("found", base.name, window if further else UNBOUNDED, True)]
        conditions = [_over(c, names) for c in known]
        for number, alias in enumerate(further):
            lonely, row = self.alone[alias], _row(self.anchors[alias].alias)
            joined.append(Reference(f"alone{number}", lonely.name, window, True))
            conditions.append(Call("=", (_over(row, names), ColumnRef(f"alone{number}", _name(row), BIGINT)), BOOLEAN))
        self._maker(name, tuple(joined), tuple(conditions), [self._output(c, kind, names) for c in self.columns], stream)

    def _base(
        self, references: Sequence[Reference], where: tuple[Expression, ...], missing: list[str]
    ) -> tuple[Stream, Mapping[tuple[str, str], ColumnRef], tuple[Expression, ...], list[str]]:
        """What results of a kind have: a stream, its names, conditions still to be asked, and partners that must be missing too."""
        if len(references) == 1:
            first, rest = missing[0], missing[1:]
            return self.alone[first], self._names(self.alone[first]), where, rest
        kind = {r.alias for r in references}
        columns = [c for c in self.columns if c.ref in kind]
        columns += dict.fromkeys(_row(self.anchors[alias].alias) for alias in missing)
        stream = self._stream([Column(_name(c), c.type) for c in columns])
        self._maker(stream.makers[0], tuple(references), where, [Output(_name(c), c) for c in columns], stream)
        return stream, self._names(stream), (), missing

    @staticmethod
    def _names(stream: Stream) -> dict[tuple[str, str], ColumnRef]:
        found = {}
        for column in stream.schema.columns:
            alias, _, name = column.name.partition(".")
            found[alias, name] = ColumnRef("found", column.name, column.type)
        return found

    @staticmethod
    def _output(column: ColumnRef, kind: frozenset[str], names: Mapping[tuple[str, str], ColumnRef]) -> Output:
        if column.ref not in kind:
            return Output(_name(column), Literal(None, column.type))
        return Output(_name(column), _over(column, names))

    def _maker(
        self,
        name: str,
        references: tuple[Reference, ...],
        where: tuple[Expression, ...],
        outputs: Sequence[Output],
        stream: Stream,
        keeping: Keeping | None = None,
    ) -> None:
        query = BoundQuery(
            name, references, tuple(where), tuple(outputs), settings=self.derivation.settings, text=self.text, feeds=stream, keeping=keeping
        )
        self.derivation.makers.append(query)

    def _stream(self, columns: Sequence[Column], makers: int = 1) -> Stream:
        name = self.derivation.next_name()
        names = (name,) if makers == 1 else tuple(f"{name}.{number + 1}" for number in range(makers))
        position = self.derivation.catalog.next_position
        self.derivation.catalog.next_position += 1
        schema = Schema((*columns, Column(DERIVED_TIME, TIMESTAMP)))
        return Stream(name=name, schema=schema, time=DERIVED_TIME, position=position, makers=names, ordered=False)


def _key(test: int) -> str:
    """The name of a test among aliases."""
    return f"_{test}"


def _name(column: ColumnRef) -> str:
    return f"{column.ref}.{column.column}"


def _row(alias: str) -> ColumnRef:
    """The number of a row in its stream."""
    return ColumnRef(alias, ROW, BIGINT)


def _span(anchor: Reference) -> int:
    return anchor.window.micros if isinstance(anchor.window, Range) else 0


def _over(e: Expression, names: Mapping[tuple[str, str], ColumnRef]) -> Expression:
    """An expression in the names of a derived stream."""
    if isinstance(e, ColumnRef):
        return names.get((str(e.ref), e.column), e)
    if isinstance(e, Call):
        return Call(e.function, tuple(_over(a, names) for a in e.args), e.type)
    return e
