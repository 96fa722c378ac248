"""The tree value and its text."""

from __future__ import annotations

import pytest

from eddyline.errors import PlanProblem
from eddyline.plan.tree.jtree.enumeration import every_shape, random_shape
from eddyline.plan.tree.jtree.tree import JTree


@pytest.mark.parametrize("text", ["a", "(a b)", "((a b) c d)", "((a b) (c d))", "(a (b (c d e)))"])
def test_text_and_back(text):
    assert str(JTree.parse(text)) == text


def test_spaces_commas_and_groups_of_one_say_nothing():
    assert JTree.parse(" ( ( a,b )  (c) ) ") == JTree.parse("((a b) c)")


@pytest.mark.parametrize("text", ["", "(", ")", "()", "(a b", "(a b))", "(a b) c", "(a a)", "((a b) a)"])
def test_what_is_no_tree(text):
    with pytest.raises(PlanProblem):
        JTree.parse(text)


def test_leaves_nodes_and_shape():
    tree = JTree.parse("((a b) c d)")
    assert tree.leaves == ("a", "b", "c", "d")
    assert [str(node) for node in tree.nodes] == ["(a b)", "((a b) c d)"]
    assert [
        JTree.parse(text).shape for text in ("a", "(a b)", "(a b c)", "((a b) c)", "((a b) c d)", "((a b c) d)")
    ] == [
        "mjoin",
        "mjoin",
        "mjoin",
        "bjtree",
        "jtree",
        "jtree",
    ]


def test_trees_are_values():
    assert JTree.parse("((a b) c)") == JTree.node([JTree.mjoin("ab"), JTree.leaf("c")])
    assert len({JTree.parse("(a b)"), JTree.mjoin("ab")}) == 1
    with pytest.raises(PlanProblem):
        JTree()
    with pytest.raises(PlanProblem):
        JTree.node([JTree.leaf("a")])


def test_there_are_as_many_trees_as_schroeder_counted():
    counts = [len({frozenset(shape) for shape in every_shape(count)}) for count in range(1, 7)]
    assert counts == [1, 1, 4, 26, 236, 2752]


def test_random_trees_are_trees():
    import random

    lots = random.Random(5)
    known = {frozenset(shape) for shape in every_shape(5)}
    drawn = {frozenset(random_shape(5, lots)) for _ in range(2_000)}
    assert drawn <= known and len(drawn) > len(known) / 2
