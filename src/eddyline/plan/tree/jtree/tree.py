"""Join trees, and their text `((a b) c d)`.

Answer   `JTree`: a leaf with an alias, or a node with two or more children. A node of two is a binary join, a node of
         more an mjoin. Trees are compared by value, written with `str` and read with `JTree.parse`.
Limits   A tree has no probe orders and no costs: `plan/tree/cost.py` computes both from the join graph.
Reading  docs/design/0002-cost-model.md
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from eddyline.errors import PlanProblem


@dataclass(frozen=True, slots=True)
class JTree:
    """A leaf (alias, no children) or a node (children, no alias).

    >>> tree = JTree.parse("((a b) c d)")
    >>> tree.leaves, tree.shape, str(tree)
    (('a', 'b', 'c', 'd'), 'jtree', '((a b) c d)')
    """

    alias: str | None = None
    children: tuple[JTree, ...] = ()

    def __post_init__(self) -> None:
        if (self.alias is None) == (not self.children):
            raise PlanProblem("a tree is a leaf with an alias or a node with children, not both and not neither")
        if len(self.children) == 1:
            raise PlanProblem("a join node needs two inputs or more", detail=str(self.children[0]))
        if self.children:
            leaves = self.leaves
            if len(set(leaves)) != len(leaves):
                raise PlanProblem("a tree names an input twice", detail=str(self))

    @classmethod
    def leaf(cls, alias: str) -> JTree:
        return cls(alias=alias)

    @classmethod
    def node(cls, children: Iterable[JTree]) -> JTree:
        return cls(children=tuple(children))

    @classmethod
    def mjoin(cls, aliases: Iterable[str]) -> JTree:
        """One node over all inputs; a single input is its own tree."""
        leaves = tuple(cls.leaf(alias) for alias in aliases)
        return leaves[0] if len(leaves) == 1 else cls.node(leaves)

    @classmethod
    def parse(cls, text: str) -> JTree:
        """The tree that `str` writes; names are anything without spaces, commas and parentheses."""
        tokens = re.findall(r"[()]|[^\s(),]+", text)
        tree, rest = _read(tokens, 0, text)
        if rest != len(tokens):
            raise PlanProblem(f"there is more behind the tree: {' '.join(tokens[rest:])}", detail=text)
        return tree

    def __str__(self) -> str:
        return self.alias if self.alias is not None else f"({' '.join(map(str, self.children))})"

    @property
    def is_leaf(self) -> bool:
        return self.alias is not None

    @property
    def leaves(self) -> tuple[str, ...]:
        """Aliases from left to right."""
        if self.alias is not None:
            return (self.alias,)
        return tuple(alias for child in self.children for alias in child.leaves)

    @property
    def nodes(self) -> Iterator[JTree]:
        """The join nodes, children before parents."""
        for child in self.children:
            yield from child.nodes
        if self.children:
            yield self

    @property
    def shape(self) -> str:
        """`mjoin` for one node, `bjtree` when every node has two children, else `jtree`."""
        nodes = list(self.nodes)
        if len(nodes) <= 1:
            return "mjoin"
        return "bjtree" if all(len(node.children) == 2 for node in nodes) else "jtree"

    def check(self, aliases: Iterable[str]) -> None:
        """Raise unless the leaves are exactly these aliases."""
        wanted = tuple(aliases)
        unknown, missing = sorted(set(self.leaves) - set(wanted)), sorted(set(wanted) - set(self.leaves))
        if unknown:
            raise PlanProblem(
                f"the tree names {', '.join(unknown)}, which the query does not read",
                hint=f"references are {', '.join(wanted)}",
            )
        if missing:
            raise PlanProblem(f"the tree leaves out {', '.join(missing)}", detail=str(self))


def _read(tokens: list[str], place: int, text: str) -> tuple[JTree, int]:
    hint = "for example ((a b) c)"
    if place >= len(tokens):
        raise PlanProblem("the tree ends too early", detail=text, hint=hint)
    token = tokens[place]
    if token == ")":
        message = "a parenthesis is closed that was not opened, or a group is empty"
        raise PlanProblem(message, detail=text, hint=hint)
    if token != "(":
        return JTree.leaf(token), place + 1
    children: list[JTree] = []
    place += 1
    while place < len(tokens) and tokens[place] != ")":
        child, place = _read(tokens, place, text)
        children.append(child)
    if place >= len(tokens):
        raise PlanProblem("a parenthesis is not closed", detail=text, hint=hint)
    if not children:
        raise PlanProblem("a group of the tree is empty", detail=text, hint=hint)
    # A group of one is its member.
    return (children[0] if len(children) == 1 else JTree.node(children)), place + 1
