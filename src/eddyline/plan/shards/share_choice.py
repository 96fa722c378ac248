"""The shares of a grid of shards: into how many slices each axis is cut.

Answer   `load` is the number of rows that one cell receives; `choose_shares` finds the shares with the smallest load.
         `chosen_axes` gives the axes of a query with their shares, and whether its groups are kept in parts;
         `whole_because` is the reason against that. `recorded_axes` takes the shares of a checkpoint.
Limits   Expected loads, not skew. All tuples of integers are tried: a grid has few axes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from eddyline.errors import PlanProblem
from eddyline.model.expressions.arranged import IN_ORDER
from eddyline.model.expressions.expression import Aggregate, walk
from eddyline.model.query import BoundQuery
from eddyline.model.template import BoundRequests, BoundTemplate
from eddyline.plan.shards.axes import Axis, axes_of
from eddyline.plan.shards.chain_keys import is_bucket


def load(axes: Sequence[Axis], rates: Mapping[str, float]) -> float:
    """Expected rows that one cell receives: a reference is divided by the shares of the axes that place it."""
    return sum(rate / math.prod(axis.share for axis in axes if alias in axis.keys) for alias, rate in rates.items())


def choose_shares(axes: Sequence[Axis], rates: Mapping[str, float], shards: int) -> tuple[int, ...]:
    """The shares with the smallest load; of equal ones, those with the fewest cells, hence the fewest rows sent.

    Exact: all tuples of integers whose product is at most `shards` are tried.
    """
    if not axes:
        return ()
    member = np.array([[alias in axis.keys for axis in axes] for alias in rates])
    rate = np.array(list(rates.values()))
    tried = np.array(list(_tuples(len(axes), shards)))
    divisor = np.where(member[None], tried[:, None, :], 1).prod(axis=2)
    loads = (rate / divisor).sum(axis=1)
    best = np.flatnonzero(loads <= loads.min() * (1 + 1e-9))
    return tuple(int(s) for s in min(tried[best], key=lambda t: (int(t.prod()), tuple(-t))))


def _tuples(length: int, most: int) -> Iterator[tuple[int, ...]]:
    """All tuples of integers from 1 up with a product of at most `most`."""
    if length == 0:
        yield ()
        return
    for head in range(1, most + 1):
        for tail in _tuples(length - 1, most // head):
            yield (head, *tail)


def chosen_axes(query: BoundQuery, rates: Mapping[str, float], shards: int) -> tuple[tuple[Axis, ...], bool, str]:
    """The axes with their shares; whether groups are merged from parts; and if not, although a shard would have fewer
    rows then, the reason."""

    def chosen(merged: bool) -> tuple[Axis, ...]:
        axes = axes_of(query, tuple(rates), merged)
        return with_shares(axes, choose_shares(axes, rates, shards))

    axes = chosen(merged=False)
    if isinstance(query, BoundRequests):
        return axes, math.prod(axis.share for axis in axes) > 1, ""
    if not query.is_aggregate or isinstance(query, BoundTemplate):
        return axes, False, ""
    cut = chosen(merged=True)
    # Rows of one instant are in one bucket of time: cutting by it spreads nothing.
    spread = [axis for axis in axes if not all(is_bucket(key) for keys in axis.keys.values() for key in keys)]
    if load(cut, rates) >= load(spread, rates) * (1 - 1e-9):
        return axes, False, ""
    whole = whole_because(query)
    return (axes, False, whole) if whole else (cut, True, "")


def whole_because(query: BoundQuery) -> str:
    """Why the groups of an aggregate cannot be kept in parts; empty: they can."""
    if query.emit.kind != "close":
        # A change says what was before, and merged parts keep no earlier result.
        return "as only EMIT ON CLOSE merges them"
    if query.group_window is not None and query.group_window.kind == "session":
        return "as all rows of a group make its sessions"
    above = (*query.computed, *(() if query.ranking is None else (o.expression for o in query.ranking.order)))
    if any(isinstance(x, Aggregate) and x.function in IN_ORDER for e in above for x in walk(e)):
        return "as its values are put in the order of rows"
    if query.settings.propagate != "off":
        return "as the end of a group is announced where all its rows are"
    if query.by_promises:
        return "as punctuations close them where all their rows are"
    return ""


def recorded_axes(
    query: BoundQuery, aliases: tuple[str, ...], merged: bool, shares: Sequence[int], shards: int
) -> tuple[Axis, ...]:
    """The axes of a query with the shares that a checkpoint keeps; shares that do not fit are refused."""
    axes = axes_of(query, aliases, merged)
    if len(shares) != len(axes) or math.prod(shares) > shards:
        raise PlanProblem(
            f"the routing of query {query.name} does not fit its record",
            detail=f"{len(axes)} attributes over {shards} shards, recorded shares {list(shares)}",
            hint="start with the number of shards and the query text of the checkpoint",
        )
    return with_shares(axes, shares)


def with_shares(axes: Sequence[Axis], shares: Sequence[int]) -> tuple[Axis, ...]:
    return tuple(replace(axis, share=share) for axis, share in zip(axes, shares, strict=True))
