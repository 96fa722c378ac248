"""What an intermediate store holds already: combinations that are made late are made once.

Answer   `not_stored` gives each combination once, without those that the store holds.
State    An index of the store over the ids of the components (`by_rows`), made when it is first needed.
"""

from __future__ import annotations

import numpy as np

from eddyline.kernels.joins import probe as probe_kernels
from eddyline.operators.join.combination import Combinations
from eddyline.operators.join.demand.mns import Flags
from eddyline.operators.join.inputs import ID, NodeInput
from eddyline.operators.join.probing.probing import of_any_age


def by_rows(kept: NodeInput) -> tuple[tuple[int, str], ...]:
    """The key of a combination: which rows it is made of."""
    return tuple((reference, ID) for reference in kept.references)


def not_stored(kept: NodeInput, rows: Combinations) -> Combinations:
    rows = _once(rows)
    if not len(rows):
        return rows
    store = kept.store
    index = store.indexes[kept.need_index(by_rows(kept))]
    wanted = kept.combined_keys(by_rows(kept), rows.ids)
    left, right, _ = probe_kernels.probe_chains(of_any_age(wanted), index.chains("stamp", "dead", False))
    same = np.ones(len(left), np.bool_)
    for reference, ids in kept.expand(right).items():
        same &= ids == rows.ids[reference][left]
    known: Flags = np.zeros(len(rows), np.bool_)
    known[left[same]] = True
    return rows.take(~known) if known.any() else rows


def _once(rows: Combinations) -> Combinations:
    if len(rows) < 2:
        return rows
    columns = list(rows.ids.values())
    order = np.lexsort(columns)
    differs = np.zeros(len(rows), np.bool_)
    differs[0] = True
    for column in columns:
        ranked = column[order]
        differs[1:] |= ranked[1:] != ranked[:-1]
    return rows if differs.all() else rows.take(np.sort(order[differs]))
