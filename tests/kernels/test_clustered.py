"""Rows clustered by address, against plain lists."""

from __future__ import annotations

import numpy as np
import pytest

from eddyline.kernels.clustered import addresses, cluster, read_runs
from eddyline.kernels.hashing import mix_all


@pytest.mark.parametrize("widths", [(3, 2), (0, 4), (4, 0), (0, 0), (5, 5)])
def test_requests_find_the_rows_with_their_keys(widths: tuple[int, int]) -> None:
    lots = np.random.default_rng(1)
    words = lots.integers(-20, 20, (2, 500))
    address = addresses(words, np.array(widths))
    plain = [
        (int(a) & ((1 << widths[0]) - 1)) | (int(b) & ((1 << widths[1]) - 1)) << widths[0]
        for a, b in zip(mix_all(words[0]), mix_all(words[1]), strict=True)
    ]
    assert address.tolist() == plain
    order, offsets = cluster(address, 1 << sum(widths))
    assert order.tolist() == sorted(range(500), key=lambda row: (plain[row], row))
    clustered = words[:, order]
    masks = [(1 << widths[0]) - 1, ((1 << widths[1]) - 1) << widths[0]]
    for fixed in ([0], [1], [0, 1], []):
        mask = sum(masks[column] for column in fixed)
        free = ((1 << sum(widths)) - 1) & ~mask
        for row in range(0, 500, 37):
            keys = words[fixed, row]
            matches, runs, visited = read_runs(offsets, clustered, np.array(fixed, np.int64), keys, plain[row] & mask, free)
            assert matches == sum(all(words[c, other] == words[c, row] for c in fixed) for other in range(500))
            assert runs == 1 << free.bit_count()
            assert visited == sum((at ^ plain[row]) & mask == 0 for at in plain)
