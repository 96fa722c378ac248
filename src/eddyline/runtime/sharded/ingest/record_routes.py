"""Which shards get which records.

Answer   A record goes to every shard, unless its kind says the values of the columns that place rows: then it goes
         where rows with these values go. One copy of each record is marked as the one that is counted.
State    None.
Limits   A record of a stream whose rows go to every shard does too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from eddyline.model.expressions.expression import Expression, columns_of
from eddyline.model.records.records import Records
from eddyline.plan.shards.routing import Route
from eddyline.runtime.engine.records.kinds import kinds, with_home
from eddyline.runtime.sharded.job.layout import JobLayout

#: The 64-bit values of a key expression over rows.
KeysOf = Callable[[pa.Table, Expression], np.ndarray]


def records_of_shards(
    layout: JobLayout, records: Sequence[Records], routes: Mapping[str, list[tuple[int, Route]]], keys_by: KeysOf
) -> list[list[Records]]:
    """Per shard the records that it gets, in their order."""
    found: list[list[Records]] = [[] for _ in range(layout.shards)]
    for batch in records:
        mine = [route for _, route in routes.get(batch.stream, ())]
        values = _values(layout, batch, mine)
        if values is None:
            for shard, held in enumerate(found):
                held.append(with_home(batch, shard == 0))
            continue
        here = np.zeros((layout.shards, len(batch)), bool)
        home = np.zeros(len(batch), np.int64)
        for route in reversed(mine):
            places = route.shards_of([[keys_by(values, key) for key in keys] for keys in route.keys], 0, len(batch))
            here[places.T, np.arange(len(batch))] = True
            home = places[:, 0]
        for shard, held in enumerate(found):
            if here[shard].any():
                part = batch.take(here[shard])
                held.append(replace(part, home=(home == shard)[here[shard]]))
    return found


def _values(layout: JobLayout, batch: Records, routes: Sequence[Route]) -> pa.Table | None:
    """The constants of records that travel like rows; None: they go to every shard."""
    if layout.shards == 1 or batch.stream in layout.whole or not routes:
        return None
    stream = layout.streams[layout.numbers[batch.stream]]
    values = kinds()[batch.kind].pinned(batch, stream)
    if values is None:
        return None
    needed = {name for route in routes for keys in route.keys for key in keys for _, name in columns_of(key)}
    # A route without keys deals rows out in turns: nothing says where one with these values goes.
    dealt = any(share > 1 and keys == () for route in routes for share, keys in route.slices)
    return values if not dealt and needed <= set(values.column_names) else None
