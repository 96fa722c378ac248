"""The last probe for many queries: lineage and windows are tested while probing, and results go straight to the
queries.

Answer   At the point *mode*, the last probe of a root node is made as a whole where its results are collected query by
         query. Every pair is written once per query that wants it; combinations never exist apart from the queries.
State    None.
Limits   The partner is a stream with an index, and nothing is left to verify. Cost: pairs and matches, not queries.
Reading  docs/operators/sharing.md
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from eddyline.kernels.joins import sharing as kernels
from eddyline.kernels.order import ascends
from eddyline.operators.join.combination import LineageBits
from eddyline.operators.join.commons import Commons
from eddyline.operators.join.inputs import StreamInput
from eddyline.operators.join.node import JoinNode
from eddyline.operators.join.policy import JoinPolicy
from eddyline.operators.join.port import bits_of
from eddyline.operators.join.probing.expansion import Expansion
from eddyline.operators.join.probing.modes import Modes, Probe

if TYPE_CHECKING:
    from eddyline.operators.join.group import JoinConfig, JoinGroup


def last_probes(config: JoinConfig, commons: Commons) -> JoinPolicy | None:
    return LastProbes(config.settings.tuning.sharing.many_queries)


class LastProbes(JoinPolicy):
    def __init__(self, many_queries: int) -> None:
        #: With fewer queries results are not collected query by query.
        self.many_queries = many_queries
        self._queries = 0

    @property
    def is_idle(self) -> bool:
        return self._queries < self.many_queries

    def changed(self, group: JoinGroup, is_replanted: bool) -> None:
        self._queries = len(group.members)

    def mode(self, node: JoinNode, probe: Probe) -> Modes | None:
        into = probe.join_slice.into
        one = node.inputs[probe.step.input]
        if into is None or not probe.takes_pairs or not probe.is_last or len(node.references) < node.total:
            return None
        if node.loop or not isinstance(one, StreamInput) or one.port.judge is not None:
            return None
        if probe.step.index is None or probe.step.verify or probe.step.conditions:
            return None
        pairs, visited = _written(into, one, probe.step.index, probe)
        node.counters.probes += len(probe.rows)
        node.counters.visited += visited
        return Modes(taken=pairs)


def _written(into: Expansion, one: StreamInput, index_column: str, probe: Probe) -> tuple[int, int]:
    """Write the shares of a probe; returns the pairs that some query wants, and the stored rows visited."""
    rows, store, port, roll = probe.rows, one.store, one.port, into.roll
    index = store.indexes[index_column]
    width = len(roll.place_of) // 64
    everyone = port.full().reshape(1, width)
    lineage: LineageBits = everyone if rows.lineage is None else rows.lineage
    stored: LineageBits = store.columns[port.lineage_column].reshape(-1, width) if port.stores_lineage else everyone
    counted = bool(port.most_rows)
    seen = probe.join_slice.rows_seen(port.position, rows.rank) if counted else rows.clock
    time, rows_back = port.reaches
    table = time.table & bits_of(roll.slots, width)
    sequence = kernels.by_bucket(probe.hashes, index.heads)
    ts = store.columns[one.death]
    num = store.columns[port.reader.numbers] if counted else ts
    probing = kernels.Probing(
        probe.hashes,
        probe.limits,
        rows.clock,
        seen,
        lineage,
        int(rows.lineage is not None),
        bool(ascends(probe.limits)),
    )
    order, theirs = store.columns[one.order], int(port.stores_lineage)
    chained = kernels.Chained(
        index.heads, index.back, index.keys, order, ts, num, stored, theirs, store.base, store.first
    )
    windows = kernels.Windows(
        time.sizes, table, time.size_of, rows_back.sizes, rows_back.table, rows_back.size_of, roll.place_of
    )
    at = pairs = visited = 0
    while True:
        shares = kernels.ShareArrays(into.place, into.left, into.right)
        into.made, at, found, looked = kernels.expand_chains(
            shares, into.made, into.offset, at, sequence, probing, chained, windows
        )
        pairs += found
        visited += looked
        if at == len(sequence):
            break
        into.grow()
    into.hold(rows, {port.position: store.base})
    return pairs, visited
