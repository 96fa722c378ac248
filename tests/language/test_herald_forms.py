"""Texts of heralds that are filled in say what they say when they are read."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest

from eddyline.errors import UserError
from eddyline.language.records.herald_forms import Texts, _filled
from eddyline.language.records.heralds import _read_text
from eddyline.model.datatypes import BIGINT, DOUBLE, INT, STRING, TIMESTAMP, decimal
from eddyline.model.records.herald import NEVER, Herald
from eddyline.model.schema import Column, Schema, Stream

KINDS = {"i": INT, "l": BIGINT, "d": DOUBLE, "m": decimal(9, 2), "t": STRING, "col1": INT, "ts": TIMESTAMP}
STREAM = Stream("s", Schema(tuple(Column(name, kind) for name, kind in KINDS.items())), "ts")


def read(text: str) -> Herald | str:
    try:
        return _read_text(STREAM, text)
    except UserError as problem:
        return problem.message


def text_of(random: Random) -> str:
    """Mostly heralds; some texts are none."""

    def number() -> str:
        return random.choice(
            [
                "0",
                "7",
                "-3",
                "- 4",
                "007",
                "999999999",
                "1234567890",
                "3.5",
                "1e3",
                "+5",
                "-0",
                "5 + 2",
                "--5",
                str(random.randrange(99)),
            ]
        )

    def part() -> str:
        name = random.choice(["i", "l", "d", "m", "t", "col1", "I", "s.i", "nothing"])
        return random.choice([
            f"{name} {random.choice(['=', '<', '<=', '>', '>=', '<>'])} {number()}", f"{name} BETWEEN {number()} AND {number()}",
            f"{number()} < {name}", f"{name} IN ({number()}, {number()})", f"{name} IS NULL", f"{name} < {number()} OR {name} > {number()}",
            f"NOT {name} < {number()}", f"({name} < {number()})", f"{name}<{number()}",
        ])  # fmt: skip

    span = random.choice(["ROWS", "ROW", "rows", "SECONDS", "minutes", "DAYS", "HOURS 30 MINUTES", "MONTHS", ""])
    length = random.choice(["0", "1", "30", "30", "999999999", "4000000000", "1.5"])
    return f"{' AND '.join(part() for _ in range(random.randint(1, 3)))} FOR {length} {span}"


@pytest.mark.parametrize("seed", range(20))
def test_what_is_filled_in_is_what_is_read(seed: int) -> None:
    random = Random(seed)
    reads: list[str] = []

    def reading(text: str) -> Herald:
        reads.append(text)
        return _read_text(STREAM, text)

    forms, plain = Texts(reading), 0
    texts = [text_of(random) for _ in range(60)] + [
        "i >= 7 AND d < 30 FOR 30 ROWS",
        "i < # FOR # ROWS",
        "i IS NULL FOR 7 ROWS",
        "",
    ]
    for text in texts + [text.replace("7", "8").replace("30", "41") for text in texts]:
        before, found = len(reads), None
        try:
            found = forms.herald(text)
        except UserError as problem:
            found = problem.message
        assert found == read(text), text
        plain += len(reads) == before
    assert plain > 0


def test_a_form_is_read_once_and_numbers_that_are_no_span_are_errors() -> None:
    reads: list[str] = []

    def reading(text: str) -> Herald:
        reads.append(text)
        return _read_text(STREAM, text)

    forms = Texts(reading)
    for n in range(50):
        found = forms.herald(f"l BETWEEN {n} AND {n + 9} AND i > -{n} FOR {n + 1} ROWS")
        assert found == read(f"l BETWEEN {n} AND {n + 9} AND i > -{n} FOR {n + 1} ROWS")
    # The first one, and the second text that shows that filling in is right.
    assert len(reads) == 2
    with pytest.raises(UserError, match="is no span"):
        forms.herald("l BETWEEN 1 AND 2 AND i > -3 FOR 0 ROWS")


@pytest.mark.parametrize("seed", range(20))
def test_a_column_of_texts_says_what_each_of_them_says(seed: int) -> None:
    random = Random(seed)
    forms = Texts(lambda text: _read_text(STREAM, text))
    known = [
        "i >= 7 AND d < 30 FOR 30 ROWS",
        "l = -4 FOR 9 SECONDS",
        "7 < d AND d < 7 AND i >= -0 FOR 1 ROW",
        "l > 12345678901 FOR 3 ROWS",
    ]
    for _ in range(3):
        texts = [random.choice([text_of(random), *known]) for _ in range(random.randrange(60))]
        digits = str(random.randrange(0, 2_000_000_000))
        texts = [text.replace("7", digits) if random.random() < 0.3 else text for text in texts]
        # A part of a longer column: its offsets do not begin at 0.
        column = pa.array(["i < 5 FOR 1 ROWS", *texts], pa.string()).slice(1)
        said = forms.many(column)
        for at, text in enumerate(texts):
            wanted = read(text)
            if isinstance(wanted, str):
                assert said.problems[at].message == wanted
                continue
            span = [None if value == NEVER else int(value) for value in (said.rows[at], said.micros[at])]
            assert span == [wanted.rows, wanted.micros], text
            alike = [(group, int(np.flatnonzero(group.at == at)[0])) for group in said.alike if at in group.at]
            assert len(alike) + (at in said.single) == 1
            if at in said.single:
                assert said.single[at] == wanted
            for group, line in alike:
                values = iter(group.literals[line].tolist())
                assert _filled(group.condition, values) == wanted.condition and next(values, None) is None
    assert any(len(group.at) > 1 for group in said.alike) or len(texts) < 20
