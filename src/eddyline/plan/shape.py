"""A plan as a tree of parts, which drawings show and figures are counted for.

Answer   `query_shape` makes one of a lowered query and the tree that answers it: streams and tables with windows and
         filters at the bottom, joins, an aggregate, the results on top. `text_shape` makes one of any other query from
         its streams and the text of its plan. A part has the name under which reports count it.
State    None: a shape is a value, and plain JSON.
Limits   At most a few short lines per part: a drawing is not a listing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from eddyline.model.expressions.expression import Expression, rename_refs
from eddyline.model.joining import Tree, leaves
from eddyline.plan.lower import Lowered

#: Letters of a line, and lines of a node. Bounds of the display.
_LONGEST, _LINES = 46, 4


@dataclass(frozen=True, slots=True)
class Part:
    #: stream | table | join | aggregate | results | other.
    kind: str
    title: str
    lines: tuple[str, ...] = ()
    #: Its name in reports: of a stream, of an operator, of a query.
    key: str = ""
    inputs: tuple[Part, ...] = ()
    #: Of a stream: the operator whose `rows_in` are the rows that reach the query, and the one whose `rows_out` pass
    #: its filter.
    passing: tuple[str, str] | None = None

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"kind": self.kind, "title": self.title, "lines": list(self.lines), "key": self.key}
        if self.passing is not None:
            found["passing"] = list(self.passing)
        return {**found, "inputs": [part.as_json() for part in self.inputs]}

    @classmethod
    def of(cls, document: dict[str, Any]) -> Part:
        inputs = tuple(cls.of(part) for part in document["inputs"])
        passing = document.get("passing")
        counted = None if passing is None else (str(passing[0]), str(passing[1]))
        return cls(document["kind"], document["title"], tuple(document["lines"]), document["key"], inputs, counted)

    def all(self) -> Iterator[Part]:
        yield self
        for part in self.inputs:
            yield from part.all()


def query_shape(
    lowered: Lowered,
    tree: Tree,
    name_of: Callable[[tuple[int, ...]], str] | None = None,
    passing: tuple[str, str] | None = None,
) -> Part:
    """The shape of a query over streams; `name_of` gives the name of an operator by its references.

    A query over one stream has no join: `passing` names the operators that count the rows that come and those that
    pass.
    """
    query = lowered.query
    own = dict(enumerate(lowered.aliases))
    top = _node(lowered, tree, own, name_of, passing)
    if query.is_aggregate:
        groups = [_text(e, own) for e in lowered.group_by]
        lines = [f"by {', '.join(groups)}" if groups else "one group"]
        lines += [] if lowered.having is None else [f"having {_text(lowered.having, own)}"]
        top = Part("aggregate", "aggregate", _short([*lines, f"emit {query.emit}"]), f"query {query.name}", (top,))
    selected = [f"{_text(o.expression, own)} AS {o.name}" for o in lowered.outputs]
    return Part("results", query.name, _short(selected), f"query {query.name}", (top,))


def text_shape(name: str, text: str, streams: Iterable[str], key: str) -> Part:
    """The shape of a query that is no join: its streams, one part for all that it does, its results."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("query:")]
    inputs = tuple(Part("stream", stream, (), stream) for stream in sorted(streams))
    other = Part("other", lines[0] if lines else name, _short(lines[1:]), key, inputs)
    return Part("results", name, (), f"query {name}", (other,))


def _node(
    lowered: Lowered,
    tree: Tree,
    own: dict[int, str],
    name_of: Callable[[tuple[int, ...]], str] | None,
    passing: tuple[str, str] | None,
) -> Part:
    if isinstance(tree, int):
        seat, window, where = lowered.seats[tree], lowered.windows[tree], lowered.filters[tree]
        alias = lowered.aliases[tree]
        title = seat.source if alias == seat.source else f"{seat.source} {alias}"
        lines = [] if window is None else [f"[{window}]"]
        lines += [] if where is None else [f"where {_text(where, own)}"]
        if seat.is_table:
            return Part("table", title, _short(lines), seat.source)
        if name_of is not None:
            passing = (name_of((tree,)),) * 2
        return Part("stream", title, _short(lines), seat.source, passing=passing)
    inputs = tuple(_node(lowered, branch, own, name_of, passing) for branch in tree)
    mine = frozenset(leaves(tree))
    below = [frozenset(leaves(branch)) for branch in tree]
    conditions = []
    for equality in lowered.equalities:
        ends = {equality.left, equality.right}
        if ends <= mine and not any(ends <= one for one in below):
            conditions.append(_text(equality.condition, own))
    if mine == frozenset(range(len(lowered.seats))):
        conditions += [_text(condition, own) for condition in lowered.residuals]
    key = "" if name_of is None else name_of(tuple(sorted(mine)))
    return Part("join", "join" if len(inputs) == 2 else f"join of {len(inputs)}", _short(conditions), key, inputs)


def _text(expression: Expression, own: dict[int, str]) -> str:
    return str(rename_refs(expression, own))


def _short(lines: Iterable[str]) -> tuple[str, ...]:
    found = list(lines)
    kept = [line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…" for line in found[:_LINES]]
    return (*kept, f"and {len(found) - _LINES} more") if len(found) > _LINES else tuple(kept)
