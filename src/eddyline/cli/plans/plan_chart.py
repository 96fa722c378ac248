"""A chart of CPU against memory: where the candidates lie, and which of them fit the budgets.

Answer   `draw` writes a picture with one dot per tree, coloured by shape; a ring marks the chosen tree, a box the
         budgets. Of a graph with at most `EVERY_TREE` streams all trees are drawn, of others those that the search
         priced and some at random.
State    None.
Limits   Needs matplotlib, which is an optional dependency. Both axes are logarithmic.
Reading  docs/design/0002-cost-model.md#the-planning-tool
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from eddyline.errors import PlanProblem
from eddyline.plan.tree.cost import CostModel, UnitCosts
from eddyline.plan.tree.join_graph import JoinGraph
from eddyline.plan.tree.jtree.candidates import Budgets
from eddyline.plan.tree.jtree.choice import Choice, PricedTree
from eddyline.plan.tree.jtree.enumeration import every_shape, random_shape

#: The most streams of a graph of which every tree is drawn: 2,752 trees.
EVERY_TREE = 6
#: Random trees that are drawn of a larger graph.
SAMPLE = 1_000
COLOURS = {"mjoin": "#e07a3f", "bjtree": "#1f5f8b", "jtree": "#9bb8a0"}


def points(graph: JoinGraph, costs: UnitCosts, choice: Choice) -> list[PricedTree]:
    """The trees to draw, each once."""
    model = CostModel(graph, costs)
    if model.count <= EVERY_TREE:
        shapes = list(every_shape(model.count))
    else:
        rng = random.Random(model.count)
        shapes = [random_shape(model.count, rng) for _ in range(SAMPLE)]
    found = {str(priced.tree): priced for priced in choice.looked_at}
    for shape in shapes:
        price = model.price_shape(shape)
        priced = PricedTree(model.tree(shape), price.cpu, price.memory)
        found.setdefault(str(priced.tree), priced)
    return list(found.values())


def draw(path: Path, graph: JoinGraph, costs: UnitCosts, choice: Choice, budgets: Budgets) -> None:
    """Write the picture; the file's ending says in which format."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as problem:
        raise PlanProblem(
            "--plot needs matplotlib", detail=str(problem), hint="pip install 'eddyline[bench]'"
        ) from problem
    figure = Figure(figsize=(7.0, 4.6), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    drawn = points(graph, costs, choice)
    for shape in ("jtree", "bjtree", "mjoin"):
        some = [(priced.memory, priced.cpu) for priced in drawn if priced.tree.shape == shape]
        if some:
            memory, cpu = zip(*some, strict=True)
            axes.scatter(memory, cpu, s=14, color=COLOURS[shape], label=f"{shape} ({len(some):,})")
    chosen = choice.nearest
    label = f"chosen: {chosen.tree}" if choice.tree is not None else f"nearest: {chosen.tree}"
    ring: dict[str, Any] = {"s": 110, "facecolors": "none", "edgecolors": "black", "linewidths": 1.4}
    axes.scatter([chosen.memory], [chosen.cpu], label=label, **ring)
    axes.set(xscale="log", yscale="log", xlabel=f"state ({graph.unit})", ylabel="CPU seconds per second")
    axes.set_title(f"outcome: {choice.outcome}" + (f" ({choice.bound} exceeded)" if choice.bound else ""))
    _budget_box(axes, budgets)
    axes.legend(loc="best", fontsize=8)
    try:
        figure.savefig(path)
    except (OSError, ValueError) as problem:
        raise PlanProblem(
            f"the picture {path} cannot be written", detail=str(problem), hint="a path that ends in .png, .svg or .pdf"
        ) from problem


def _budget_box(axes: Any, budgets: Budgets) -> None:
    """Lines at the budgets; the area within both is shaded."""
    left, bottom = axes.get_xlim()[0], axes.get_ylim()[0]
    line = {"color": "#b03030", "linestyle": "--", "linewidth": 1}
    if budgets.cpu is not None and budgets.cpu > 0:
        bottom = min(bottom, budgets.cpu / 2)
        axes.axhline(budgets.cpu, **line)
    if budgets.memory is not None and budgets.memory > 0:
        left = min(left, budgets.memory / 2)
        axes.axvline(budgets.memory, **line)
    right, top = axes.get_xlim()[1], axes.get_ylim()[1]
    axes.set_xlim(left, right)
    axes.set_ylim(bottom, top)
    area = {"color": "#b03030", "alpha": 0.06, "linewidth": 0, "label": "within budgets"}
    axes.fill_between([left, budgets.memory or right], bottom, budgets.cpu or top, **area)
