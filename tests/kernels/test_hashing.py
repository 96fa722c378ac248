"""Equal keys hash alike wherever they lie; different ones hardly ever."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
from numba import njit

from eddyline.kernels import hashing
from eddyline.kernels.raw import copy_bytes, same_bytes
from eddyline.model.datatypes import BIGINT, DOUBLE, STRING, decimal
from eddyline.operators.stream.keys import combined, keys_of
from tests.oracle import kernels as slow


def test_strings_hash_by_content_not_by_place() -> None:
    texts = [f"key {i}" for i in range(5000)] + ["", "a", "longer than eight bytes", "longer than eight byteS"]
    whole = keys_of(pa.array(texts), STRING)
    assert len(set(whole.tolist())) == len(texts)
    assert keys_of(pa.array(texts).slice(17, 100), STRING).tolist() == whole[17:117].tolist()


def test_hashes_of_strings_are_those_of_a_plain_loop() -> None:
    """Restarts and shards rely on them."""
    random = Random(3)
    for _ in range(200):
        texts = [random.randbytes(random.randrange(30)) for _ in range(random.randrange(1, 6))]
        offsets = np.cumsum([0, *map(len, texts)])
        found = hashing.hash_strings(offsets, np.frombuffer(b"".join(texts), np.uint8))
        assert found.tolist() == [slow.hashed_text(text) for text in texts]


def test_stretches_are_compared_and_copied_to_their_last_byte() -> None:
    @njit
    def compared(a, start_a, b, start_b, size):
        return same_bytes(a, start_a, b, start_b, size)

    @njit
    def copied(a, start, size):
        out = np.zeros(len(a) + 2, np.uint8)
        copy_bytes(out, 1, a, start, size)
        return out

    data = np.frombuffer(Random(4).randbytes(40), np.uint8)
    for size in range(34):
        for start in range(40 - size + 1):
            shifted = np.concatenate([np.zeros(start % 5, np.uint8), data[start : start + size]])
            assert compared(data, start, shifted, start % 5, size)
            assert copied(data, start, size)[: size + 2].tolist() == [0, *data[start : start + size].tolist(), 0]
            for place in {0, size // 2, size - 1} if size else ():
                other = shifted.copy()
                other[start % 5 + place] ^= 1
                assert not compared(data, start, other, start % 5, size)


def test_doubles_that_are_equal_in_sql_have_one_word() -> None:
    keys = keys_of(pa.array([0.0, -0.0, float("nan"), -float("nan"), 1.5]), DOUBLE)
    assert keys[0] == keys[1] and keys[2] == keys[3] and len(set(keys.tolist())) == 3


def test_composite_keys_depend_on_order_and_on_every_column() -> None:
    a, b = np.array([1, 2, 1, 1]), np.array([2, 1, 2, 3])
    keys = combined([a, b])
    assert keys[0] == keys[2] and len(set(keys.tolist())) == 3
    assert combined([a]).tolist() == a.tolist()
    assert hashing.combine(hashing.mix_all(a), b).tolist() == keys.tolist()


def test_words_of_integers_are_the_values() -> None:
    assert keys_of(pa.array([5, -1, 2**62]), BIGINT).tolist() == [5, -1, 2**62]
    from decimal import Decimal

    cents = pa.array([Decimal("1.10"), Decimal("1.1"), Decimal("-3.00")], pa.decimal128(10, 2))
    keys = keys_of(cents, decimal(10, 2))
    assert keys[0] == keys[1] != keys[2]
