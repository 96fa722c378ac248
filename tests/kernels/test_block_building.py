"""Values numbered and rows clustered by address, against plain lists."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from eddyline.kernels.hashing import mix_all
from eddyline.kernels.requests.block_building import add_field, cluster_rows, code_rows, number_distinct
from eddyline.kernels.requests.request_groups import group_requests, group_rows


@pytest.mark.parametrize("seed", range(30))
def test_words_are_numbered_as_they_come(seed: int) -> None:
    rng = Random(seed)
    rows = [rng.choice((None, -5, 0, 7, 1 << 62, rng.randrange(40))) for _ in range(rng.randint(0, 60))]
    column, most = rng.randrange(3), rng.choice((2, 5, 100))
    keys = np.array([0 if row is None else row for row in rows], np.int64)
    nulls = np.array([(row is None) << column | (rng.randrange(8) & ~(1 << column)) for row in rows], np.int64)
    found, numbers = number_distinct(keys, nulls, column, most)
    known = list(dict.fromkeys(row for row in rows if row is not None))
    if len(known) > most:
        assert not len(found)
        return
    assert found.tolist() == known
    assert numbers.tolist() == [-1 if row is None else known.index(row) for row in rows]
    order = np.argsort(found)
    codes = np.empty(len(order), np.int32)
    codes[order] = np.arange(len(order))
    code_rows(numbers, codes)
    assert numbers.tolist() == [-1 if row is None else sorted(known).index(row) for row in rows]
    address, fields = np.full(len(rows), 1, np.int64), np.arange(len(order)) * 3
    add_field(address, numbers, fields, 2)
    assert address.tolist() == [1 if code < 0 else 1 | code * 3 << 2 for code in numbers.tolist()]


@pytest.mark.parametrize("seed", range(20))
def test_rows_lie_in_the_order_of_their_addresses(seed: int) -> None:
    lots = np.random.default_rng(seed)
    rows, columns, bits = int(lots.integers(0, 80)), int(lots.integers(1, 4)), int(lots.integers(0, 5))
    address, keys = lots.integers(0, 1 << bits, rows), lots.integers(-9, 9, (columns, rows))
    codes, coded = lots.integers(0, 1 << 16, (columns, rows)).astype(np.int32), lots.random(columns) < 0.5
    nulls, ids = lots.integers(0, 1 << columns, rows), np.sort(lots.permutation(200)[:rows])
    offsets, places, here, bare, forms = cluster_rows(address, 1 << bits, keys, codes, coded, nulls, ids)
    order = sorted(range(rows), key=lambda row: (address[row], row))
    assert offsets.tolist() == [int((address < at).sum()) for at in range((1 << bits) + 1)]
    assert places.tolist() == [ids[row] for row in order]
    assert here.tolist() == keys[:, order].tolist() and bare.tolist() == nulls[order].tolist()
    for column in range(columns):
        hashed = mix_all(keys[column]).view(np.uint64) >> np.uint64(48)
        assert forms[column].tolist() == (codes[column] if coded[column] else hashed)[order].tolist()


def test_requests_are_groups_of_their_own() -> None:
    lots = np.random.default_rng(3)
    request, keys = lots.integers(0, 7, 50), np.zeros((1, 50), np.int64)
    alone = group_requests(request, 9)
    hashed = group_rows(request, np.arange(50), keys, np.zeros(50, np.int64), np.empty(0, np.int64), 0)
    assert [one.tolist() for one in alone] == [one.tolist() for one in hashed]
