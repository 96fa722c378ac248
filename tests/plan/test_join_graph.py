"""The join graph: windows, tables, several predicates, cross products, and what it refuses."""

from __future__ import annotations

import pytest

from eddyline.errors import PlanProblem
from eddyline.plan.tree.cost import CostModel, UnitCosts
from eddyline.plan.tree.join_graph import JoinGraph, JoinInput, members
from eddyline.plan.tree.jtree.tree import JTree


def test_windows_become_rows():
    assert JoinInput.over_time("a", rate=20, window=5.0).rows == 100
    assert JoinInput.over_rows("b", rate=20, rows=10).rows == 10
    assert JoinInput.table("t", rows=7) == JoinInput("t", rate=0.0, rows=7.0)


def test_several_predicates_between_two_inputs_multiply():
    graph = JoinGraph.of([JoinInput.over_time(alias, 10, 1) for alias in "ab"], [("a", "b", 0.5), ("b", "a", 0.2)])
    assert graph.selectivities[0, 1] == pytest.approx(0.1)
    assert graph.selectivities[1, 0] == pytest.approx(0.1)


def test_without_a_predicate_it_is_a_cross_product():
    graph = JoinGraph.of(
        [JoinInput.over_time("a", 10, 1), JoinInput.over_time("b", 20, 1), JoinInput.over_time("c", 5, 1)],
        [("a", "b", 0.1)],
    )
    assert CostModel(graph, UnitCosts()).rows(graph.mask(["a", "c"])) == 50
    assert graph.connected(graph.mask(["a"]), graph.mask(["b", "c"]))
    assert not graph.connected(graph.mask(["c"]), graph.mask(["a", "b"]))


def test_a_static_table_is_probed_and_never_speaks():
    graph = JoinGraph.of([JoinInput.over_time("a", 10, 2), JoinInput.table("t", 100)], [("a", "t", 0.01)])
    price = CostModel(graph, UnitCosts(insert=1, delete=1, join=1)).price(JTree.parse("(a t)"))
    # Ten rows a second are stored, removed, and meet one row of the table each; the table stays.
    assert price.cpu == pytest.approx(10 * 2 + 10)
    assert price.memory == 20 + 100


def test_an_intermediate_store_over_a_table_turns_over_with_its_stream():
    graph = JoinGraph.of(
        [JoinInput.over_time("a", 10, 2), JoinInput.table("t", 100), JoinInput.over_time("b", 5, 2)], [("a", "t", 0.01)]
    )
    model = CostModel(graph, UnitCosts())
    both = graph.mask(["a", "t"])
    assert model.rows(both) == pytest.approx(20)
    assert model.rate(both) == pytest.approx(10)


def test_document():
    graph = JoinGraph.from_document(
        {
            "streams": {"a": {"rate": 20, "window": 5.0}, "b": {"rate": 3, "rows": 100}},
            "tables": {"t": {"rows": 50}},
            "joins": [["a", "b", 0.05], ["b", "t", 0.02]],
        }
    )
    assert graph.aliases == ("a", "b", "t")
    assert [item.rows for item in graph.inputs] == [100, 100, 50]
    assert graph.selectivities[1, 2] == pytest.approx(0.02)


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"streams": {"a": {"window": 5}}},
        {"streams": {"a": {"rate": "fast", "window": 5}}},
        {"streams": {"a": {"rate": 1, "window": 1}}, "joins": [["a", "b", 0.5]]},
        {"streams": {"a": {"rate": 1, "window": 1}}, "joins": [["a", "a", 0.5]]},
        {"streams": {"a": {"rate": 1, "window": 1}, "b": {"rate": 1, "window": 1}}, "joins": [["a", "b", -1]]},
        {"streams": {"a": {"rate": 1, "window": 1}, "b": {"rate": 1, "window": 1}}, "joins": [["a", "b"]]},
        {"streams": {"a": {"rate": -1, "window": 1}}},
        {"streams": {"a": {"rate": 1, "window": float("inf")}}},
        {"streams": {}},
        {"streams": {"a": {"rate": 1, "window": 1}}, "tables": {"a": {"rows": 1}}},
    ],
)
def test_refused_documents(document):
    with pytest.raises(PlanProblem):
        JoinGraph.from_document(document)


def test_members():
    assert members(0) == []
    assert members(0b10110) == [1, 2, 4]


def test_memory_in_bytes():
    inputs = [
        JoinInput("a", 10, 10, row_bytes=100),
        JoinInput("b", 10, 10, row_bytes=50),
        JoinInput("c", 10, 10, row_bytes=10),
    ]
    graph = JoinGraph.of(inputs, [("a", "b", 0.1), ("b", "c", 0.1)], unit="bytes")
    model = CostModel(graph, UnitCosts())
    assert model.price(JTree.parse("(a b c)")).memory == 10 * (100 + 50 + 10)
    # A stored pair keeps two row numbers of 16 bytes; its payload is in the streams' stores.
    assert model.price(JTree.parse("((a b) c)")).memory == pytest.approx(10 * (100 + 50 + 10) + 10 * 32)
