"""The parts of a join, without any array: seats, keys, equalities, trees.

Answer   The planner makes these values, and operators are built from them. This file loads no compiled code, so that
         checking and explaining a job loads none.
Limits   A tree is a reference position or a tuple of trees; tuples of three and more are joins of several inputs at
         once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from eddyline.model.datatypes import DataType
from eddyline.model.expressions.expression import Expression, reference_text, refs_of, rename_refs

Tree = int | tuple["Tree", ...]


def leaves(tree: Tree) -> Iterator[int]:
    """The reference positions of a tree, from left to right."""
    if isinstance(tree, int):
        yield tree
    else:
        for branch in tree:
            yield from leaves(branch)


def joined_text(references: tuple[int, ...]) -> str:
    """The references of a node or store as figures show them.

    >>> joined_text((0, 2))
    'r0⋈r2'
    """
    return "⋈".join(reference_text(reference) for reference in references)


def is_exact(kind: DataType) -> bool:
    """Whether values of this type fit 64 bits, so that equal keys mean equal values. Other types are hashed."""
    return kind.name not in ("STRING", "DECIMAL")


@dataclass(frozen=True, slots=True)
class JoinKeyColumn:
    """A join key over one reference; `name` is its text with the alias taken out."""

    name: str
    expression: Expression

    @classmethod
    def of(cls, expression: Expression) -> JoinKeyColumn:
        """The key that an expression over one reference is: the same one for two references to one stream."""
        bare = rename_refs(expression, dict.fromkeys(refs_of(expression), ""))
        return cls(f"key:{expression.type}:{bare}", bare)


@dataclass(frozen=True, slots=True)
class Seat:
    """One reference of a join: its source, its join keys, and on Spark the route of its rows."""

    source: str
    is_table: bool
    keys: tuple[JoinKeyColumn, ...]
    route: int | None = None


@dataclass(frozen=True, slots=True)
class Equality:
    """`left` of one reference equals `right` of another; keys are columns of the streams' stores."""

    left: int
    left_key: str
    right: int
    right_key: str
    #: Equal keys mean equal values. Otherwise `text_columns` or `condition` decides.
    exact: bool
    condition: Expression
    text_columns: tuple[str, str] | None = None

    def sides(self, covered: frozenset[int], added: frozenset[int]) -> tuple[int, str, int, str] | None:
        """(reference, key) among the covered, (reference, key) among the added; None if it does not join them."""
        if self.left in covered and self.right in added:
            return self.left, self.left_key, self.right, self.right_key
        if self.right in covered and self.left in added:
            return self.right, self.right_key, self.left, self.left_key
        return None
