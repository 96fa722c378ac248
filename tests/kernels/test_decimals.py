"""Decimals rounded to fewer digits, compared with Python's integers."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from eddyline.kernels.decimals import DOWN, HALF_AWAY, UP, rescale
from eddyline.operators.expressions.functions_decimal import rounded

MASK = 2**64 - 1
EXACT = Context(prec=200)


def some(rng: Random, digits: int) -> int:
    size = rng.choice(
        (rng.randint(0, 10 ** rng.randint(1, digits) - 1), 10 ** rng.randint(1, digits) - rng.randint(1, 3), 0)
    )
    if digits > 25 and rng.random() < 0.3:
        # Arrow's division gives other digits for these.
        size = 9223372036854775807902643 * 10 ** rng.randint(0, digits - 26)
    return rng.choice((1, -1)) * size


@pytest.mark.parametrize(("rounding", "mode"), [(HALF_AWAY, ROUND_HALF_UP), (UP, ROUND_CEILING), (DOWN, ROUND_FLOOR)])
def test_integers_are_divided_exactly(rounding: int, mode: str) -> None:
    rng = Random(rounding)
    for _ in range(1_000):
        value, down = some(rng, 75), rng.randint(0, 76)
        up = rng.randint(0, min(down, 38))
        words = np.array([[value >> 64 * k & MASK for k in range(4)]], np.uint64).view(np.int64)
        out = np.empty_like(words)
        rescale(words, down, up, rounding, out)
        found = sum(int(word) << 64 * k for k, word in enumerate(out[0].view(np.uint64).tolist()))
        found -= 2**256 if found >= 2**255 else 0
        quotient = Decimal(value).scaleb(-down, EXACT).quantize(Decimal(1), mode, EXACT)
        assert found == int(quotient) * 10**up, (value, down, up)


@pytest.mark.parametrize("kind", [pa.decimal128, pa.decimal256])
def test_decimals_are_rounded_as_python_rounds_them(kind) -> None:
    rng = Random(3)
    most = 38 if kind is pa.decimal128 else 74
    for _ in range(60):
        scale = rng.randint(1, 38)
        values = [some(rng, most - 1) if rng.random() < 0.9 else None for _ in range(rng.randint(0, 20))]
        given = [None if v is None else Decimal(v).scaleb(-scale, EXACT) for v in values]
        places = rng.randint(-3, scale - 1)
        array = pa.array([None, *given], kind(most, scale)).slice(1)
        found = rounded(array, places).to_pylist()
        right = [None if v is None else v.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP, EXACT) for v in given]
        assert found == right
