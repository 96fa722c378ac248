"""Resuming at the lowest joins: from new opposite rows straight to the pairs of two streams.

Answer   `woken_pairs` gives the pairs that new opposite rows demand, as `Gathering.gather` does. It leaves out pairs
         that one further condition refuses.
State    None.
Limits   The node joins two streams, and the opposite rows share keys with both: `can_wake_pairs` says so. Most
         pairs that a row demands are wanted by no other row. A join step at a time would write all of them down.
Reading  docs/operators/demand.md
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eddyline.kernels import hashing
from eddyline.kernels.joins import waking
from eddyline.operators.join.combination import Combinations
from eddyline.operators.join.demand.gathering import Gathering
from eddyline.operators.join.demand.mns import DemandCondition, Link, links_between
from eddyline.operators.join.inputs import StreamInput
from eddyline.operators.join.join_slice import RowsSeen
from eddyline.operators.join.node import JoinNode
from eddyline.operators.join.port import LONG_AGO
from eddyline.operators.join.probing.verification import both_lineages
from eddyline.operators.stream.keys import combined
from eddyline.state.columns import Ints


def can_wake_pairs(node: JoinNode, condition: DemandCondition) -> bool:
    """Whether the rows that a condition is about are pairs of streams that both share keys with the opposite rows."""
    streams = [one for one in node.inputs if isinstance(one, StreamInput) and not one.stream.is_table]
    return len(streams) == len(node.inputs) == 2 and all(condition.references & set(one.references) for one in streams)


def woken_pairs(
    gathering: Gathering, opposite: Ints, low: int, rows_seen: RowsSeen, third: DemandCondition | None
) -> tuple[Combinations, DemandCondition | None]:
    """Pairs that the opposite rows want, and the condition that has been tested on them: `third`, if it could be."""
    near, far = gathering.inputs[1:]
    assert gathering.witness is not None and isinstance(near, StreamInput) and isinstance(far, StreamInput)
    to_near, to_far = (links_between(gathering.equalities, gathering.witness.references, one) for one in (near, far))
    between = links_between(gathering.equalities, near.references, far)
    if third is not None and third.bloomed:
        third = None
    ids = gathering.witness.expand(opposite)
    near_keys, far_keys = (
        [gathering.node.bases[r].store.at(key, ids[r]) for r, key, _, _ in links] for links in (to_near, to_far)
    )
    links = () if third is None else third.links
    nears, fars, visited, tested, refused = waking.demanded_pairs(  # type: ignore[no-untyped-call]
        (combined(near_keys), combined(far_keys), np.stack(near_keys, axis=1), np.stack(far_keys, axis=1)),
        _side(near, to_near, [key for _, key, _, _ in between], links, low),
        _side(far, to_far, [key for _, _, _, key in between], links, low),
        _third(third, near),
        low,
    )
    gathering.counters.probes += len(opposite)
    gathering.counters.visited += visited
    if third is not None:
        third.checked += tested
        third.rejected += refused
    return _true_pairs(gathering, near, far, nears, fars, low, rows_seen), third


def _true_pairs(
    gathering: Gathering, near: StreamInput, far: StreamInput, nears: Ints, fars: Ints, low: int, rows_seen: RowsSeen
) -> Combinations:
    """Those of the pairs that fulfil texts, conditions, lineage and counted windows, with their true age."""
    none = np.zeros(len(nears), np.int64)
    made = Combinations(
        {**near.expand(nears), **far.expand(fars)},
        none,
        none,
        none,
        both_lineages(near.lineage(nears), far.lineage(fars)),
    )
    own, verification = frozenset(made.ids), gathering.verification
    for equality in gathering.equalities:
        if not equality.exact and {equality.left, equality.right} <= own and len(made):
            made = made.take(verification.same(equality, made))
    for condition in gathering.node.residuals:
        if len(made):
            made = made.take(verification.holds(condition, made))
    return gathering.with_real_age(made, low, rows_seen)


def _side(
    one: StreamInput, opposite_links: Sequence[Link], joint: list[str], third: Sequence[Link], low: int
) -> tuple[Any, ...]:
    keys = [key for _, _, _, key in opposite_links]
    store = one.store
    index = store.indexes[one.need_index(tuple((one.port.position, key) for key in keys))]
    floor = int(one.floors(np.array([low]))[0])
    deaths = one.deaths(np.arange(store.first, store.end))
    # Rows that the group has not reached meet nothing.
    deaths[max(one.end - store.first, 0) :] = LONG_AGO
    shared = _keys(one, joint)
    spread = hashing.mix_all(combined([np.ascontiguousarray(column) for column in shared.T]))
    mine = [key if reference in one.references else None for reference, key, _, _ in third]
    chains = (index.heads, index.back, index.keys, store.columns["ts"], store.base, store.first)
    return (*chains, floor, deaths, _keys(one, keys), spread, shared, _keys(one, mine))


def _keys(one: StreamInput, names: Sequence[str | None]) -> Ints:
    """Keys of the live rows, a column per part; parts that lie elsewhere are zero."""
    none = np.zeros(one.store.extent, np.int64)
    columns = [none if name is None else one.store.column(name) for name in names]
    return np.stack(columns or [none], axis=1)


def _third(condition: DemandCondition | None, near: StreamInput) -> tuple[Any, ...]:
    """The store that is tested whether it holds the key of a pair."""
    if condition is None:
        key = np.zeros(1, np.int64)
        return False, np.zeros(1, np.bool_), key, np.zeros(1, np.int32), key, key, 0, 0, 0
    condition.prepare()
    opposite, store = condition.opposite, condition.opposite.store
    index = store.indexes[condition.index_column or ""]
    from_near = np.array([reference in near.references for reference, _, _, _ in condition.links])
    span = -int(opposite.floors(np.zeros(1, np.int64))[0])
    chains = (index.heads, index.back, index.keys, store.columns[opposite.death], store.base, store.first)
    return True, from_near, *chains, span
