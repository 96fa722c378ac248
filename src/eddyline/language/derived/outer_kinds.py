"""The kinds of results of several joins, and the questions that decide which kind a result has.

Answer   `Joins.kinds` goes through the joins of a FROM from left to right. A *kind* of result has some of the
         references. A *question* is whether a row of one reference, the anchor, has a partner.

             a LEFT JOIN b ON p(a, b)      {a, b}, {a} if a has no b
             …  RIGHT JOIN c ON q(a, c)    {a, b, c}, {a, c} if a has no b, {c} if c has no a

         The partners of a row of a RIGHT or FULL JOIN are combinations of what always comes together with the reference
         that ON reads.
Limits   ON of an outer join reads the joined reference and one other. ON does not hold where a reference that it reads
         has no row: an ON of which that is not known is refused. At most 16 kinds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from eddyline.errors import Position, Unsupported
from eddyline.model.expressions.expression import Call, ColumnRef, Expression, refs_of
from eddyline.model.query import Reference
from eddyline.model.schema import Stream, Table

#: More kinds are refused: each kind is a query of its own.
MOST_KINDS = 16
HINT = "build it of two steps: FROM (SELECT … FROM a LEFT JOIN b ON …) x [RANGE 1 MINUTE] LEFT JOIN c …"
#: Functions that are NULL, or do not hold, where their first argument is NULL, and those that are where any is.
_NULL_OF_FIRST = frozenset(("in", "like", "ilike", "is_not_null", "cast"))
_OPERATORS = ("=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "//", "%", "and")
_NULL_OF_ANY = frozenset((*_OPERATORS, "neg", "abs", "lower", "upper", "date_trunc", "epoch_us"))


@dataclass(frozen=True)
class OuterBranch:
    """One source of FROM after the first, or the source of an EXISTS."""

    reference: Reference
    #: LEFT, RIGHT, FULL, or anything else for an inner join; of a test EXISTS or NOT EXISTS.
    join: str
    on: tuple[Expression, ...]
    position: Position | None

    @property
    def alias(self) -> str:
        return self.reference.alias

    @property
    def read(self) -> frozenset[str]:
        """The other references that ON reads."""
        return frozenset(str(ref) for c in self.on for ref in refs_of(c)) - {self.alias}


@dataclass(frozen=True)
class Question:
    """Whether a row of the anchor has a partner: rows of the other references for which the conditions hold."""

    key: str
    anchor: Reference
    others: tuple[Reference, ...]
    conditions: tuple[Expression, ...]
    position: Position | None


@dataclass(frozen=True)
class OuterKind:
    """Results with these references; the answers to the questions are no."""

    aliases: frozenset[str]
    without: tuple[Question, ...] = ()


@dataclass
class Joins:
    root: Reference
    branches: Sequence[OuterBranch]
    tests: Sequence[OuterBranch] = ()
    kinds: list[OuterKind] = field(init=False)
    #: The questions of EXISTS and NOT EXISTS, in the order of `tests`.
    tested: list[Question] = field(init=False)

    def __post_init__(self) -> None:
        self.kinds = [OuterKind(frozenset((self.root.alias,)))]
        for branch in self.branches:
            self.kinds = self._joined(branch)
            if len(self.kinds) > MOST_KINDS:
                raise Unsupported(
                    f"these joins give {len(self.kinds)} kinds of results", detail=f"at most {MOST_KINDS}", hint=HINT,
                    position=branch.position,
                )  # fmt: skip
        self.tested = [self._tested(number, test) for number, test in enumerate(self.tests)]

    @property
    def references(self) -> tuple[Reference, ...]:
        return (self.root, *(b.reference for b in self.branches))

    @property
    def always(self) -> frozenset[str]:
        """The references that every result has."""
        return frozenset[str].intersection(*(kind.aliases for kind in self.kinds))

    @property
    def questions(self) -> list[Question]:
        """Every question once."""
        return list(dict.fromkeys(q for kind in self.kinds for q in kind.without))

    def conditions(self, aliases: Iterable[str]) -> tuple[Expression, ...]:
        """The ON conditions of a kind: those of its references, without the first one in the order of FROM."""
        here = set(aliases)
        places = [r.alias for r in self.references]
        first = min(places.index(alias) for alias in here)
        return tuple(c for b in self.branches if b.alias in here and places.index(b.alias) > first for c in b.on)

    def _joined(self, branch: OuterBranch) -> list[OuterKind]:
        """The kinds after one more join."""
        if branch.join not in ("LEFT", "RIGHT", "FULL"):
            self._check_null(branch, branch.read)
            return [
                OuterKind(kind.aliases | {branch.alias}, kind.without)
                for kind in self.kinds
                if branch.read <= kind.aliases
            ]
        anchor = self._anchor(branch, f"{branch.join} JOIN {branch.alias}")
        self._check_null(branch, branch.read)
        made = [
            OuterKind(kind.aliases | {branch.alias}, kind.without)
            for kind in self.kinds
            if anchor.alias in kind.aliases
        ]
        if branch.join != "RIGHT":
            question = Question(branch.alias, anchor, (branch.reference,), branch.on, branch.position)
            made += [
                OuterKind(k.aliases, (*k.without, question) if anchor.alias in k.aliases else k.without)
                for k in self.kinds
            ]
        if branch.join != "LEFT":
            # What comes with every row of the anchor that is in a result.
            core = frozenset[str].intersection(*(kind.aliases for kind in self.kinds if anchor.alias in kind.aliases))
            others = tuple(r for r in self.references if r.alias in core)
            conditions = (*self.conditions(core), *branch.on)
            question = Question(f"{branch.alias}>", branch.reference, others, conditions, branch.position)
            made.append(OuterKind(frozenset((branch.alias,)), (question,)))
        return made

    def _anchor(self, branch: OuterBranch, what: str) -> Reference:
        """The one other reference that ON reads."""
        read = branch.read
        if len(read) > 1:
            raise Unsupported(
                f"the condition of {what} reads {' and '.join(sorted(read))}",
                detail="a partner is looked up for the rows of one stream",
                hint=HINT,
                position=branch.position,
            )
        if read:
            return next(r for r in self.references if r.alias in read)
        found = [r for r in self.references if r.alias in self.always]
        if not found:
            raise Unsupported(
                f"the condition of {what} reads no other stream",
                detail="and none has a row in every result: a partner is looked up for the rows of one",
                hint=HINT,
                position=branch.position,
            )
        return found[0]

    def _tested(self, number: int, test: OuterBranch) -> Question:
        if len(test.read) > 1 or not test.read <= self.always:
            raise Unsupported(
                f"the condition of {test.join} reads {' and '.join(sorted(test.read))}",
                detail="a partner is looked up for the rows of one stream, which every result has",
                hint=HINT,
                position=test.position,
            )
        return Question(f"_{number}", self._anchor(test, test.join), (test.reference,), test.on, test.position)

    def _check_null(self, branch: OuterBranch, read: frozenset[str]) -> None:
        """Refuses an ON that may hold where a reference has no row."""
        for alias in sorted(read - self.always):
            if not any(_is_null(c, alias) for c in branch.on):
                raise Unsupported(
                    f"ON of {branch.alias} may hold where {alias} has no row",
                    detail=f"no part of it is a comparison of a column of {alias}",
                    hint=f"compare a column of {alias} in ON, or write the condition in WHERE",
                    position=branch.position,
                )


def closes(alias: str, partner: Reference, relation: Stream | Table, on: Iterable[Expression]) -> bool:
    """Whether punctuations of a partner may close the partners of rows of a reference: ON holds something of both
    equal."""
    if not isinstance(relation, Stream) or not relation.is_punctuated:
        return False
    return any(isinstance(c, Call) and c.function == "=" and refs_of(c) == {alias, partner.alias} for c in on)


def _is_null(e: Expression, alias: str) -> bool:
    """Whether an expression is NULL or false where all columns of a reference are NULL."""
    if isinstance(e, ColumnRef):
        return e.ref == alias
    if not isinstance(e, Call):
        return False
    if e.function == "or":
        return all(_is_null(a, alias) for a in e.args)
    if e.function in _NULL_OF_ANY:
        return any(_is_null(a, alias) for a in e.args)
    return e.function in _NULL_OF_FIRST and bool(e.args) and _is_null(e.args[0], alias)
