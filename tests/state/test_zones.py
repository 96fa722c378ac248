"""Zones of a store against the rows that it holds, as rows come, leave, are spilled and get new ids."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from eddyline.model.datatypes import DOUBLE, INT, STRING
from eddyline.state.store import Store
from eddyline.tuning import ZoneTuning
from tests.oracle.kernels_zones import prefix

COLUMNS = {"i": INT, "d": DOUBLE, "t": STRING}

TUNING = ZoneTuning()


def append(store: Store, rng: np.random.Generator, rows: int) -> None:
    there = rng.random(rows) < 0.9
    store.append(
        rows,
        {
            "i": pa.array(rng.integers(-50, 50, rows).astype(np.int32), mask=~there),
            "d": pa.array(np.where(rng.random(rows) < 0.05, np.nan, rng.normal(size=rows))),
            "t": pa.array([f"text{n}" for n in rng.integers(0, 99, rows)]),
        },
        {},
    )


def check(store: Store) -> None:
    """Every zone covers the values of its live rows."""
    cuts = store.zones.cuts(store.first, store.end)
    assert (
        cuts[0] == store.first
        and cuts[-1] == store.end
        and (np.diff(cuts) > 0).all()
        and np.diff(cuts).max() <= TUNING.rows
    )
    for name in COLUMNS:
        low, high, nulls = store.zones.ranges(name, store.first, store.end)
        assert len(low) == len(high) == len(nulls) == len(cuts) - 1
        for at, (begin, stop) in enumerate(pairwise(cuts.tolist())):
            ids = np.arange(begin, stop)
            keys, valid = store.keys_at(name, ids[store.holds(ids)])
            there = keys if valid is None else keys[valid]
            assert bool(nulls[at]) >= (valid is not None and not valid.all())
            if len(there):
                assert low[at] <= there.min() and high[at] >= there.max()
                if not store.dropped and begin != store.first:
                    assert low[at] == there.min() and high[at] == there.max()


@pytest.mark.parametrize("seed", range(6))
def test_zones_follow_their_rows(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    store = Store("s", COLUMNS)
    for step in range(30):
        append(store, rng, int(rng.integers(1, 150)))
        if rng.random() < 0.3:
            store.zones.cut(np.array([store.end]))
        if step > 5 and rng.random() < 0.6:
            store.forget_before(store.first + int(rng.integers(0, store.extent)))
        if seed % 2 and store.extent and rng.random() < 0.5:
            store.drop(rng.integers(store.first, store.end, store.extent // 3))
            store.compact()
        if step == 15:
            append(store, rng, 5000)
            store.spill(tmp_path, 4096)
        if store.extent and rng.random() < 0.7:
            check(store)


def test_a_herald_ends_a_zone_that_has_rows_enough() -> None:
    store, rng = Store("s", COLUMNS), np.random.default_rng(1)
    append(store, rng, TUNING.least_rows)
    store.zones.cut(np.array([store.end]))
    append(store, rng, TUNING.least_rows - 1)
    store.zones.cut(np.array([store.end]))
    append(store, rng, 100)
    assert store.zones.cuts(store.first, store.end).tolist() == [0, 16, 80, 131]
    check(store)


def test_keys_ascend_as_values_do_and_texts_have_prefixes() -> None:
    store = Store("s", COLUMNS)
    doubles = [-np.inf, -1.5, -0.0, 0.0, 1e-300, 2.0, np.inf, np.nan]
    store.append(8, {"i": pa.array(range(8), pa.int32()), "d": pa.array(doubles), "t": pa.array(list("abcdefgh"))}, {})
    keys, valid = store.keys_at("d", np.arange(8))
    assert valid is None and keys[2] == keys[3] and (np.diff(np.delete(keys, 2)) > 0).all()
    assert store.keys_at("t", np.array([3]))[0].tolist() == [prefix("d")]


def test_zones_take_less_than_a_byte_per_row_and_column() -> None:
    store, rng = Store("s", COLUMNS), np.random.default_rng(2)
    append(store, rng, 6400)
    for name in COLUMNS:
        store.zones.ranges(name, store.first, store.end)
    assert store.zones.nbytes < 6400 * len(COLUMNS)
