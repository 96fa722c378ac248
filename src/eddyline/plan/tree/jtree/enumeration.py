"""All trees, or some at random: for drawings and for checking the searches.

Answer   `every_shape(count)` yields each jtree over that many inputs once; `random_shape` draws one.
Limits   There are 4, 26, 236 and 2,752 trees over 3 to 6 inputs and 660,032 over 8: enumerate few inputs only.
Reading  docs/design/0002-cost-model.md#searching
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product

from eddyline.plan.tree.cost import Shape
from eddyline.plan.tree.join_graph import members


def every_shape(count: int) -> Iterator[Shape]:
    """Every tree over inputs 0..count-1.

    >>> [sum(1 for _ in every_shape(count)) for count in (1, 2, 3, 4, 5)]
    [1, 1, 4, 26, 236]
    """
    return _shapes((1 << count) - 1)


def _shapes(mask: int) -> Iterator[Shape]:
    if not mask & (mask - 1):
        yield {}
        return
    for blocks in _partitions(mask):
        if len(blocks) > 1:
            for below in product(*(list(_shapes(block)) for block in blocks)):
                yield {mask: blocks, **{node: children for shape in below for node, children in shape.items()}}


def _partitions(mask: int) -> Iterator[tuple[int, ...]]:
    """All partitions of a mask, the block with the lowest input first."""
    if not mask:
        yield ()
        return
    low = mask & -mask
    rest = mask ^ low
    part = rest
    while True:
        for others in _partitions(rest ^ part):
            yield (low | part, *others)
        if not part:
            return
        part = (part - 1) & rest


def random_shape(count: int, rng: random.Random) -> Shape:
    """A tree drawn from the top down: the number of children first, then the child that each leaf belongs to. Not
    uniform over trees."""
    shape: Shape = {}
    pending = [(1 << count) - 1]
    while pending:
        mask = pending.pop()
        if not mask & (mask - 1):
            continue
        inputs = members(mask)
        rng.shuffle(inputs)
        arity = rng.randint(2, len(inputs))
        blocks = [1 << place for place in inputs[:arity]]
        for place in inputs[arity:]:
            blocks[rng.randrange(arity)] |= 1 << place
        shape[mask] = tuple(blocks)
        pending.extend(blocks)
    return shape
