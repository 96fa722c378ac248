"""To which inputs a producer listens: those outside of its subtree, probed directly or through their streams.

Answer   `targets_of` gives, for every inner node of a tree, the inputs in which a combination of the node must find a
         partner before a node above can use it. These are the siblings of the node and of its ancestors. A sibling that
         is a node itself can be probed in three ways.

             probes      through the stores of its streams, which always hold everything
             one-sided   through its own store if it is made before the listening node; otherwise not at all
             chain       through its own store if it is made before the listening node; otherwise through its streams

Limits   Dependencies are acyclic: a node probes only stores that are complete before it runs. Where both inputs of a
         consumer wait for each other's stores, results are lost.
Reading  docs/operators/demand.md
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eddyline.operators.join.inputs import Input, NodeInput, StreamInput
from eddyline.operators.join.node import JoinNode


def targets_of(
    nodes: Sequence[tuple[JoinNode, NodeInput | None]], bases: Mapping[int, StreamInput], control: str
) -> dict[int, tuple[Input, ...]]:
    """Per place in `nodes` (children before parents, the root last), the inputs that its combinations must match.

    `auto` is the chain: no form keeps less, and the first store it probes is the smaller one of those that it may probe.
    """
    place = {id(kept): number for number, (_, kept) in enumerate(nodes) if kept is not None}
    found: dict[int, tuple[Input, ...]] = {}

    def descend(number: int, outer: tuple[Input, ...]) -> None:
        node, kept = nodes[number]
        if kept is not None:
            found[number] = outer
        for child in node.inputs:
            if id(child) not in place:
                continue
            here: list[Input] = list(outer)
            for sibling in node.inputs:
                if sibling is not child:
                    here += _tested_inputs(sibling, place[id(child)], place, bases, control)
            descend(place[id(child)], tuple(here))

    if nodes:
        descend(len(nodes) - 1, ())
    return found


def _tested_inputs(
    sibling: Input, before: int, place: Mapping[int, int], bases: Mapping[int, StreamInput], control: str
) -> list[Input]:
    if not isinstance(sibling, NodeInput):
        return [sibling]
    if control != "probes" and place[id(sibling)] < before:
        return [sibling]
    return [] if control == "one-sided" else [bases[reference] for reference in sibling.references]
