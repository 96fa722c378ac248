"""A plan as a drawing: one SVG, for pages, notebooks and files.

Answer   `draw` draws the parts of a plan as a tree, with results on top and streams at the bottom, and with counts on
         boxes and edges. Colours are attributes, with classes beside them for a page that gives others.
Limits   Every text is escaped. A drawing is as wide as its lowest row: hundreds of streams in one query make a wide
         one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

from eddyline.plan.shape import Part

#: Sizes of the drawing, in pixels.
_LETTER, _TITLE, _LINE, _PAD = 7.0, 8.0, 16, 10
_NARROW, _GAP, _EDGE = 110.0, 24.0, 64.0
#: Fill and line by kind, chosen to be read on light and dark ground.
_COLOURS = {
    "stream": ("#dbeafe", "#2563eb"),
    "table": ("#e5e7eb", "#6b7280"),
    "join": ("#fef3c7", "#b45309"),
    "aggregate": ("#ede9fe", "#7c3aed"),
    "results": ("#dcfce7", "#15803d"),
    "other": ("#fce7f3", "#be185d"),
}


@dataclass(frozen=True, slots=True)
class Note:
    """Counts at a part."""

    #: Further lines in its box.
    lines: tuple[str, ...] = ()
    #: The text of the edge to the part above.
    edge: str = ""


@dataclass(slots=True)
class _Box:
    part: Part
    lines: list[str]
    edge: str
    width: float
    height: float
    #: Of the whole branch below and with it.
    span: float
    inputs: list[_Box]
    x: float = 0.0
    y: float = 0.0


def draw(part: Part, notes: Mapping[str, Note] | None = None) -> str:
    """The drawing; `notes` are by the kind and key of parts, as `name_of` gives them."""
    root = _boxed(part, notes or {})
    heights: list[float] = []
    _measure(root, 0, heights)
    _place(root, 0.0, 0, heights)
    width = root.span + 2 * _PAD
    height = sum(heights) + _EDGE * (len(heights) - 1) + 2 * _PAD
    drawn = [*_edges(root), *_boxes(root)]
    label = escape(f"plan of {part.title}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="plan" role="img" aria-label="{label}" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" font-family="system-ui, sans-serif" font-size="12">{"".join(drawn)}</svg>'
    )


def name_of(part: Part) -> str:
    return f"{part.kind} {part.key}"


def _boxed(part: Part, notes: Mapping[str, Note]) -> _Box:
    note = notes.get(name_of(part), Note())
    lines = [*part.lines, *note.lines]
    inputs = [_boxed(one, notes) for one in part.inputs]
    width = max([_NARROW, len(part.title) * _TITLE + 2 * _PAD, *(len(line) * _LETTER + 2 * _PAD for line in lines)])
    below = sum(one.span for one in inputs) + _GAP * max(0, len(inputs) - 1)
    # The text of an edge needs room beside it.
    texts = max((len(one.edge) * _LETTER + 2 * _PAD for one in inputs), default=0.0) * len(inputs)
    return _Box(part, lines, note.edge, width, _LINE * (len(lines) + 1) + 1.4 * _PAD, max(width, below, texts), inputs)


def _measure(box: _Box, level: int, heights: list[float]) -> None:
    if level == len(heights):
        heights.append(0.0)
    heights[level] = max(heights[level], box.height)
    for one in box.inputs:
        _measure(one, level + 1, heights)


def _place(box: _Box, left: float, level: int, heights: list[float]) -> None:
    box.x = left + box.span / 2 + _PAD
    box.y = sum(heights[:level]) + _EDGE * level + _PAD
    below = sum(one.span for one in box.inputs) + _GAP * max(0, len(box.inputs) - 1)
    at = left + (box.span - below) / 2
    for one in box.inputs:
        _place(one, at, level + 1, heights)
        at += one.span + _GAP


def _edges(box: _Box) -> list[str]:
    drawn = []
    for one in box.inputs:
        top, bottom = box.y + box.height, one.y
        middle = (top + bottom) / 2
        drawn.append(
            f'<path class="edge" d="M {one.x:.1f} {bottom:.1f} C {one.x:.1f} {middle:.1f} {box.x:.1f} {middle:.1f} {box.x:.1f} {top:.1f}" '
            'fill="none" stroke="#9ca3af" stroke-width="1.5"/>'
        )
        if one.edge:
            drawn.append(
                f'<text class="said" x="{one.x:.1f}" y="{bottom - 12:.1f}" text-anchor="middle" fill="#4b5563" stroke="#ffffff" '
                f'stroke-width="4" paint-order="stroke" font-size="11">{escape(one.edge)}</text>'
            )
        drawn += _edges(one)
    return drawn


def _boxes(box: _Box) -> list[str]:
    fill, line = _COLOURS[box.part.kind]
    left = box.x - box.width / 2
    texts = [
        f'<text class="title" x="{box.x:.1f}" y="{box.y + _LINE:.1f}" text-anchor="middle" font-weight="600" fill="#111827">'
        f"{escape(box.part.title)}</text>"
    ]
    for number, text in enumerate(box.lines):
        texts.append(
            f'<text class="line" x="{box.x:.1f}" y="{box.y + _LINE * (number + 2):.1f}" text-anchor="middle" fill="#374151">'
            f"{escape(text)}</text>"
        )
    whole = (
        f'<g class="part {box.part.kind}"><rect x="{left:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="6" '
        f'fill="{fill}" stroke="{line}"/>{"".join(texts)}</g>'
    )
    return [whole, *(drawn for one in box.inputs for drawn in _boxes(one))]
