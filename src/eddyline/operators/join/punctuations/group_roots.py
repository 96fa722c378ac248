"""Values of grouping columns as roots: until when a group can still get a result.

Answer   `GroupRoots.alive` gives, for groups by the values of their grouping columns, the last instant at which a
         result of each can come. A grouping expression fixes every reference that has an equal key: all of them are
         children of the root.
State    None: it knows which keys of which references each grouping expression fixes.
Limits   An expression over several references fixes none of them.
Reading  docs/punctuations.md
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from eddyline.model.expressions.expression import Expression, columns_of, positions_of
from eddyline.model.joining import JoinKeyColumn
from eddyline.model.window import Unbounded
from eddyline.operators.join.group import JoinGroup
from eddyline.operators.join.policy import Came
from eddyline.operators.join.punctuations.alive import AliveEvaluation, JoinShape, Pin, Values
from eddyline.operators.promises.closings import Closings
from eddyline.operators.stream.keys import keys_of
from eddyline.state.columns import Ints


class GroupRoots:
    def __init__(self, group: JoinGroup, closings: Closings, keys: tuple[Expression, ...]) -> None:
        self.rule = JoinShape(group, closings)
        self.closings = closings
        self.keys = keys
        #: Per reference: which grouping expression fixes which key of it.
        self.pins: dict[int, list[tuple[int, Pin]]] = {}
        for at, expression in enumerate(keys):
            for position, key in _equal_keys(group, expression):
                base = group.bases[position]
                for _, column in columns_of(key.expression):
                    base.stream.need_column(column)
                base.stream.need_key(key)
                pins = self.pins.setdefault(position, [])
                if not any(pin.key == key.name for _, pin in pins):
                    pins.append((at, self.rule.pin(position, key.expression, key.name)))

    def is_due(self, group: JoinGroup) -> bool:
        """Whether anything has happened since the last check by which a group can end."""
        if any(closed.fresh for closed in self.closings.closed.values()):
            return True
        windows = [
            member.window
            for base in group.bases.values()
            for member in base.port.members.values()
            if not base.stream.is_table
        ]
        timed = any(pin.ends is not None for pins in self.pins.values() for _, pin in pins)
        timed = timed or any(
            pin.ends is not None for links in self.rule.links.values() for link in links for pin in link.pins
        )
        return timed or any(not isinstance(window, Unbounded) for window in windows)

    def alive(self, values: list[pa.Array], rows: int, came: Came) -> Ints:
        """Until when each group can get a result; `values` are those of the grouping expressions."""
        self.rule.reload()
        keys = [keys_of(column, e.type) for column, e in zip(values, self.keys, strict=True)]
        pinned = {position: [(pin, values[at], keys[at]) for at, pin in pins] for position, pins in self.pins.items()}
        if not pinned:
            return np.full(rows, np.iinfo(np.int64).max)
        return AliveEvaluation(self.rule, came).values_alive(Values(rows, pinned))


def _equal_keys(group: JoinGroup, expression: Expression) -> list[tuple[int, JoinKeyColumn]]:
    """The keys of all references that a value of the expression fixes."""
    read = positions_of(expression)
    if len(read) != 1:
        return []
    key = JoinKeyColumn.of(expression)
    found: dict[tuple[int, str], JoinKeyColumn] = {(read[0], key.name): key}
    known = {(position, key.name): key for position, seat in enumerate(group.config.seats) for key in seat.keys}
    grows = True
    while grows:
        grows = False
        for equality in group.config.equalities:
            a, b = (equality.left, equality.left_key), (equality.right, equality.right_key)
            for here, there in ((a, b), (b, a)):
                if here in found and there not in found:
                    found[there] = known[there]
                    grows = True
    return [(position, key) for (position, _), key in found.items()]
