"""The plane of CPU and memory: where the candidates lie, and which of them the budgets admit.

Answer   `draw` writes a picture with one dot per tree, coloured by shape; a ring marks the chosen tree, a box the
         budgets. It draws all trees while they are few, else those that the search priced and some at random.
Limits   Needs matplotlib, which is an optional dependency. Both axes are logarithmic.
Reading  docs/design/0002-cost-model.md#the-planning-tool
"""

from __future__ import annotations

import random
from pathlib import Path

from eddyline.errors import PlanProblem
from eddyline.plan.tree.cost import CostModel, UnitCosts
from eddyline.plan.tree.join_graph import JoinGraph
from eddyline.plan.tree.jtree.choice import Choice, PricedTree
from eddyline.plan.tree.jtree.enumeration import every_shape, random_shape

#: Up to here every tree is drawn: 2,752 of them.
EVERY_TREE = 6
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


def draw(
    path: Path,
    graph: JoinGraph,
    costs: UnitCosts,
    choice: Choice,
    cpu_budget: float | None,
    memory_budget: float | None,
) -> None:
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
        some = [priced for priced in drawn if priced.tree.shape == shape]
        if some:
            axes.scatter(
                [p.memory for p in some],
                [p.cpu for p in some],
                s=14,
                color=COLOURS[shape],
                label=f"{shape} ({len(some):,})",
            )
    chosen = choice.nearest
    label = f"chosen: {chosen.tree}" if choice.tree is not None else f"nearest: {chosen.tree}"
    axes.scatter(
        [chosen.memory], [chosen.cpu], s=110, facecolors="none", edgecolors="black", linewidths=1.4, label=label
    )
    axes.set_xscale("log")
    axes.set_yscale("log")
    _budget_box(axes, cpu_budget, memory_budget)
    axes.set_xlabel(f"state ({graph.unit})")
    axes.set_ylabel("CPU seconds per second")
    axes.set_title(f"outcome: {choice.outcome}" + (f" ({choice.bound} exceeded)" if choice.bound else ""))
    axes.legend(loc="best", fontsize=8)
    try:
        figure.savefig(path)
    except (OSError, ValueError) as problem:
        raise PlanProblem(
            f"the picture {path} cannot be written", detail=str(problem), hint="a path that ends in .png, .svg or .pdf"
        ) from problem


def _budget_box(axes: object, cpu_budget: float | None, memory_budget: float | None) -> None:
    """Lines at the budgets, and the qualified corner shaded."""
    from matplotlib.axes import Axes

    assert isinstance(axes, Axes)
    left, _ = axes.get_xlim()
    bottom, _ = axes.get_ylim()
    if cpu_budget is not None and cpu_budget > 0:
        bottom = min(bottom, cpu_budget / 2)
        axes.axhline(cpu_budget, color="#b03030", linestyle="--", linewidth=1)
    if memory_budget is not None and memory_budget > 0:
        left = min(left, memory_budget / 2)
        axes.axvline(memory_budget, color="#b03030", linestyle="--", linewidth=1)
    right, top = axes.get_xlim()[1], axes.get_ylim()[1]
    axes.set_xlim(left, right)
    axes.set_ylim(bottom, top)
    axes.fill_between(
        [left, memory_budget or right],
        bottom,
        cpu_budget or top,
        color="#b03030",
        alpha=0.06,
        linewidth=0,
        label="within budgets",
    )
