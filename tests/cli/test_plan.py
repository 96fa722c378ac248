"""`eddyline plan`: what it prints, what it draws, what it refuses."""

from __future__ import annotations

import argparse
import io
import json
from itertools import pairwise

import pytest

from eddyline.cli.plans import options
from eddyline.errors import PlanProblem
from eddyline.plan.tree.budget import SHIPPED

GRAPH = {
    "streams": {
        "a": {"rate": 50, "window": 5.0},
        "b": {"rate": 100, "window": 5.0},
        "c": {"rate": 100, "window": 5.0},
        "d": {"rate": 100, "window": 5.0},
    },
    "joins": [["a", "b", 0.1], ["a", "c", 0.05], ["a", "d", 1], ["b", "c", 0.02], ["c", "d", 0.001]],
    "costs": {"insert": 1, "delete": 1, "join": 1},
}


@pytest.fixture
def eddyline(tmp_path, capsys):
    """Runs `eddyline …` with the graph in graph.json and gives back what it printed."""
    (tmp_path / "graph.json").write_text(json.dumps(GRAPH))

    def call(*words: str) -> dict[str, object]:
        parser = argparse.ArgumentParser(prog="eddyline")
        options.plan(parser.add_subparsers(required=True))
        args = parser.parse_args(
            ["plan", *(word.replace("graph.json", str(tmp_path / "graph.json")) for word in words)]
        )
        assert args.run(args) == 0
        return json.loads(capsys.readouterr().out)

    return call


def test_a_qualified_tree(eddyline):
    answer = eddyline("graph.json", "--cpu", "6000", "--memory", "2500")
    assert list(answer) == ["outcome", "tree", "cpu", "memory", "bound", "seconds"]
    assert (answer["outcome"], answer["tree"], answer["cpu"], answer["memory"], answer["bound"]) == (
        "jtree",
        "(a b (c d))",
        5625,
        2000,
        None,
    )
    assert 0 < answer["seconds"] < 5


@pytest.mark.parametrize("search", ["two-layer", "finder"])
def test_nothing_fits(eddyline, search):
    answer = eddyline("graph.json", "--cpu", "5000", "--memory", "2500", "--search", search)
    assert (answer["outcome"], answer["tree"], answer["cpu"], answer["memory"], answer["bound"]) == (
        "none",
        None,
        5625,
        2000,
        "cpu",
    )
    assert eddyline("graph.json", "--cpu", "6000", "--memory", "1000", "--search", search)["bound"] == "memory"


def test_each_search(eddyline):
    outcomes = {
        search: eddyline("graph.json", "--cpu", "8000", "--memory", "5000", "--search", search)["outcome"]
        for search in options.SEARCHES
    }
    assert outcomes == {"two-layer": "mjoin", "finder": "jtree", "mjoin": "mjoin", "bjtree": "bjtree"}


def test_without_budgets_the_least_cpu(eddyline):
    assert eddyline("graph.json")["tree"] == "(a b (c d))"


def test_default_costs_and_standard_input(eddyline, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr(
        "sys.stdin",
        io.StringIO(
            json.dumps(
                {
                    "streams": {"a": {"rate": 20, "window": 5}, "b": {"rate": 20, "window": 5}},
                    "joins": [["a", "b", 0.05]],
                }
            )
        ),
    )
    answer = eddyline("-", "--cpu", "1", "--memory", "200")
    assert (answer["outcome"], answer["tree"], answer["memory"]) == ("mjoin", "(a b)", 200)
    costs = SHIPPED
    assert answer["cpu"] == pytest.approx(
        40 * (costs.arrive + costs.keep + costs.probe) + 2 * 20 * 20 * 5 * 0.05 * costs.join
    )


@pytest.mark.parametrize("streams", [4, 8])
def test_plot(eddyline, tmp_path, streams):
    picture, graph = tmp_path / "plane.png", tmp_path / "more.json"
    names = "abcdefgh"[:streams]
    joins = [[one, two, 0.02] for one, two in pairwise(names)]
    graph.write_text(json.dumps({"streams": {name: {"rate": 10, "window": 5} for name in names}, "joins": joins}))
    eddyline(str(graph), "--cpu", "0.01", "--memory", "500", "--plot", str(picture))
    assert picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_size > 5_000


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"streams": {"a": {"rate": 1, "window": 1}}, "costs": {"pair": 1}}', b"\xff\xfe\x00"]
)
def test_refused_files(eddyline, tmp_path, content):
    (tmp_path / "graph.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(PlanProblem) as problem:
        eddyline("graph.json")
    assert problem.value.exit_code == 2


def test_a_missing_file_and_a_picture_nobody_can_write(eddyline, tmp_path):
    with pytest.raises(PlanProblem, match="cannot be read"):
        eddyline(str(tmp_path / "nowhere.json"))
    with pytest.raises(PlanProblem, match="cannot be written"):
        eddyline("graph.json", "--plot", str(tmp_path / "no" / "folder.png"))
