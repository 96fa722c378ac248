"""Numbers of texts of one form against a regular expression."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest

from eddyline.kernels.texts.form_texts import form_numbers
from eddyline.state.columns import string_buffers


@pytest.mark.parametrize("seed", range(20))
def test_numbers_of_a_form(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pieces = [["x >= ", " FOR ", " ROWS"], ["", " < y FOR ", ""], ["a<", " AND b=-", " FOR ", " s"], ["é ", ""]][
        seed % 4
    ]
    pattern = re.compile("([0-9]{1,9})".join(re.escape(piece) for piece in pieces))

    def text() -> str:
        made = "".join(piece + str(rng.integers(0, 10 ** rng.integers(1, 12))) for piece in pieces)
        made = made[: len(made) - rng.integers(0, 12)]
        return str(rng.choice([made, "", pieces[0], made.replace("1", "x"), "7".join(pieces), "007".join(pieces)]))

    texts = [text() for _ in range(int(rng.integers(0, 80)))]
    column = pa.array(["before", *texts], pa.string()).slice(1)
    places = np.flatnonzero(rng.random(len(texts)) < 0.8)
    ends = np.cumsum([len(piece.encode()) for piece in pieces])
    fits, numbers = form_numbers(*string_buffers(column), places, np.array([*"".join(pieces).encode()], np.uint8), ends)
    found = [pattern.fullmatch(texts[place]) for place in places.tolist()]
    assert fits.tolist() == [one is not None for one in found]
    assert numbers[fits].tolist() == [[int(number) for number in one.groups()] for one in found if one is not None]
