"""One look for all our pictures.

Answer   `bars` compares contenders, `lines` shows how something grows; both write a PNG and return its path.
Limits   Two kinds of picture only. A third one should earn its place here rather than style itself elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLOURS = ("#1f5f8b", "#e07a3f", "#5b8c5a", "#8f5b8c", "#b0a030", "#707070")
STYLE = {
    "figure.figsize": (7.0, 3.8),
    "figure.dpi": 120,
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e5e5e5",
    "legend.frameon": False,
}


def bars(
    path: str | Path,
    title: str,
    groups: Sequence[str],
    values: Mapping[str, Sequence[float]],
    *,
    unit: str,
    log: bool = False,
) -> Path:
    """Bars of several contenders beside each other, group by group; NaN leaves a gap."""

    def draw(axes: Axes) -> None:
        width = 0.8 / len(values)
        for number, (name, heights) in enumerate(values.items()):
            places = [group + (number - (len(values) - 1) / 2) * width for group in range(len(groups))]
            drawn = axes.bar(places, heights, width * 0.92, label=name, color=COLOURS[number % len(COLOURS)])
            axes.bar_label(drawn, fmt="%.3g", fontsize=8, padding=2)
        axes.set_xticks(range(len(groups)), groups)
        axes.grid(axis="x", visible=False)

    return _picture(path, title, draw, unit=unit, log=log, legend=len(values) > 1)


def lines(
    path: str | Path,
    title: str,
    places: Sequence[float],
    values: Mapping[str, Sequence[float]],
    *,
    across: str,
    unit: str,
    log: bool = False,
) -> Path:
    """One line per contender over a parameter."""

    def draw(axes: Axes) -> None:
        for number, (name, heights) in enumerate(values.items()):
            axes.plot(places, heights, marker="o", label=name, color=COLOURS[number % len(COLOURS)])
        axes.set_xlabel(across)
        if not log:
            axes.set_ylim(bottom=0, top=1.08 * max(h for heights in values.values() for h in heights if h == h))

    return _picture(path, title, draw, unit=unit, log=log, legend=len(values) > 1)


def _picture(path: str | Path, title: str, draw: Callable[[Axes], None], *, unit: str, log: bool, legend: bool) -> Path:
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    # A figure of its own rather than pyplot's: no window, no state between pictures.
    with matplotlib.rc_context(STYLE):
        figure = Figure()
        axes = figure.subplots()
        draw(axes)
        axes.set_title(title, loc="left")
        axes.set_ylabel(unit)
        if log:
            axes.set_yscale("log")
        if legend:
            # Beside the axes: inside them it would cover what is highest.
            axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        figure.tight_layout()
        figure.savefig(target)
    return target
