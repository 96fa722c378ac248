"""Equal keys hash alike wherever they lie; different ones hardly ever."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from eddyline.kernels import hashing
from eddyline.model.datatypes import BIGINT, DOUBLE, STRING, decimal
from eddyline.operators.keys import combined, key_words


def test_strings_hash_by_content_not_by_place() -> None:
    texts = [f"key {i}" for i in range(5000)] + ["", "a", "longer than eight bytes", "longer than eight byteS"]
    whole = key_words(pa.array(texts), STRING)
    assert len(set(whole.tolist())) == len(texts)
    assert key_words(pa.array(texts).slice(17, 100), STRING).tolist() == whole[17:117].tolist()


def test_doubles_that_are_equal_in_sql_have_one_word() -> None:
    words = key_words(pa.array([0.0, -0.0, float("nan"), -float("nan"), 1.5]), DOUBLE)
    assert words[0] == words[1] and words[2] == words[3] and len(set(words.tolist())) == 3


def test_composite_keys_depend_on_order_and_on_every_column() -> None:
    a, b = np.array([1, 2, 1, 1]), np.array([2, 1, 2, 3])
    words = combined([a, b])
    assert words[0] == words[2] and len(set(words.tolist())) == 3
    assert combined([a]).tolist() == a.tolist()
    assert hashing.combine(hashing.mix_all(a), b).tolist() == words.tolist()


def test_words_of_integers_are_the_values() -> None:
    assert key_words(pa.array([5, -1, 2**62]), BIGINT).tolist() == [5, -1, 2**62]
    from decimal import Decimal

    cents = pa.array([Decimal("1.10"), Decimal("1.1"), Decimal("-3.00")], pa.decimal128(10, 2))
    words = key_words(cents, decimal(10, 2))
    assert words[0] == words[1] != words[2]
