"""What a stretch of text has in it, against a plain loop."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest

from eddyline.kernels.texts.text import enclosed, survey
from eddyline.operators.expressions.functions_text import split_part
from tests.oracle import kernels as slow


@pytest.mark.parametrize("letters", [b"ab\n", b"a0x\n", b"0X1", b"a\r\n", b"\n", b"a\x80\n", bytes(range(256))])
def test_a_survey_is_that_of_a_plain_loop(letters: bytes) -> None:
    random = Random(repr(letters))
    for length in (0, 1, 2, 3, 7, 127, 128, 129, 130, 257, 1000):
        for _ in range(20):
            data = bytes(random.choice(letters) for _ in range(length))
            assert survey(np.frombuffer(data, np.uint8)) == slow.surveyed(data), data
    for place in range(300):
        for part in (b"0x", b"\n\n", b"\n\r", b"\xff"):
            data = b"a" * place + part + b"b" * 40
            assert survey(np.frombuffer(data, np.uint8)) == slow.surveyed(data), (place, part)


@pytest.mark.parametrize("separator", ["/", "ab", "aa", "é", "/é/"])
def test_pieces_are_those_of_python(separator: str) -> None:
    random = Random(separator)
    texts = [
        None if random.random() < 0.1 else "".join(random.choice("/abé") for _ in range(random.randrange(12)))
        for _ in range(400)
    ]
    column = pa.array(texts, pa.string())
    for n in (*range(-5, 6), 2**40, -(2**40)):

        def piece(text: str, n: int = n) -> str:
            pieces = text.split(separator)
            place = n - 1 if n > 0 else len(pieces) + n
            return pieces[place] if n and 0 <= place < len(pieces) else ""

        wanted = [None if text is None else piece(text) for text in texts]
        assert split_part(column, separator, n).to_pylist() == wanted
        assert split_part(column.slice(7, 100), separator, n).to_pylist() == wanted[7:107]
    assert split_part(column.slice(0, 0), separator, 1).to_pylist() == []
    assert split_part(pa.nulls(3, pa.string()), separator, 1).to_pylist() == [None] * 3
    assert split_part(pa.scalar("1/2", pa.string()), "/", 2).as_py() == "2"


def test_records_that_are_enclosed_are_those_of_a_plain_strip() -> None:
    words = [b"{}", b"{", b"}", b"", b" ", b"\t{} \r", b" {x}", b"null", b"}{", b"{\x00}", b"\x00{}", b"{ }\x0b"]
    data = b"\n".join(words) + b"\n"
    ends = np.cumsum([len(word) + 1 for word in words]) - 1
    starts = ends - [len(word) for word in words]
    found = enclosed(np.frombuffer(data, np.uint8), starts, ends, ord("{"), ord("}"))
    stripped = [word.strip(b" \t\r\n") for word in words]
    assert found.tolist() == [len(word) > 1 and word[:1] == b"{" and word[-1:] == b"}" for word in stripped]
    assert found.sum() == 4
