"""A toy policy: rows whose key the test knows to be hopeless are left out before they probe, and counted."""

from __future__ import annotations

from eddyline.operators.join.commons import Commons
from eddyline.operators.join.group import JoinConfig
from eddyline.operators.join.inputs import StreamInput
from eddyline.operators.join.join_slice import JoinSlice
from eddyline.operators.join.node import JoinNode
from eddyline.operators.join.policy import Fresh, JoinPolicy

#: Rows with keys from here on have no partner.
HOPELESS = 1000


class Hopeless(JoinPolicy):
    def __init__(self) -> None:
        self.left_out = 0

    def admit(self, node: JoinNode, fresh: Fresh, join_slice: JoinSlice) -> Fresh:
        for origin, (one, rows) in enumerate(zip(node.inputs, fresh, strict=True)):
            if rows is not None and isinstance(one, StreamInput):
                column = node.steps(origin, node.orders[origin])[0].probe_keys[0][1]
                hopeful = one.store.at(column, rows.ids[one.port.position]) < HOPELESS
                self.left_out += len(rows) - int(hopeful.sum())
                fresh = [*fresh[:origin], rows.take(hopeful), *fresh[origin + 1 :]]
        return fresh


def hopeless(config: JoinConfig, commons: Commons) -> JoinPolicy:
    return Hopeless()
