"""Values in JSON texts against Python's parser, and DuckDB's."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from eddyline.model.datatypes import STRING
from eddyline.model.expressions.expression import ColumnRef, Literal
from eddyline.model.expressions.functions import resolve
from eddyline.model.expressions.json_path import read_path
from eddyline.operators.expressions.evaluate import Issues, compile_expression

KEYS = ("a", "b", "b c", "é", "long key")
TEXTS = ("", "x", 'say "hi"', "a\\b", "line\nend", "é日本🦆", "\u0001", "/")
PATHS = ("$", "$.a", "$.a.b", '$."b c"[0]', "$[1]", "$[-1].a", "$.a[2][0]", "$.é", "b", "")


def value(random: Random, depth: int = 0) -> Any:
    kind = random.randrange(9 if depth < 3 else 6)
    if kind >= 7:
        return {key: value(random, depth + 1) for key in random.sample(KEYS, random.randrange(4))}
    if kind == 6:
        return [value(random, depth + 1) for _ in range(random.randrange(4))]
    return (None, True, False, random.randrange(-99, 99), random.choice((1.5, -0.25, 12.75)), random.choice(TEXTS))[
        kind
    ]


def text(random: Random) -> str | None:
    if random.random() < 0.05:
        return None
    indent, separators = random.choice((None, None, 1)), random.choice((None, (",", ":")))
    made = json.dumps(value(random), ensure_ascii=random.random() < 0.5, indent=indent, separators=separators)
    if random.random() < 0.2 and made:
        # Something is missing, or too much.
        place = random.randrange(len(made))
        made = (
            made[:place] + random.choice(("", ",", "]", "}", '"', "\\", "x", "0")) + made[place + random.randrange(2) :]
        )
    return f" {made}\n" if random.random() < 0.2 else made


def parsed(found: str | None) -> tuple[bool, Any]:
    """Whether a text is JSON, and its value, with the first of equal keys."""
    if found is None:
        return False, None
    try:
        if "NaN" in found or "Infinity" in found:
            raise ValueError(found)
        return True, json.loads(found, object_pairs_hook=lambda pairs: dict(reversed(pairs)), parse_float=_Written)
    except ValueError:
        return False, None


class _Written(float):
    """A number as it is written."""

    def __new__(cls, written: str) -> _Written:
        made = super().__new__(cls, written)
        made.written = written  # type: ignore[attr-defined]
        return made

    def __repr__(self) -> str:
        return str(self.written)  # type: ignore[attr-defined]


def at(whole: Any, path: str) -> tuple[bool, Any]:
    for step in read_path(path):
        named = isinstance(step, str) and isinstance(whole, dict) and step in whole
        placed = isinstance(step, int) and isinstance(whole, list) and -len(whole) <= step < len(whole)
        if not (named or placed):
            return False, None
        whole = whole[step]
    return True, whole


def ask(function: str, texts: list[str | None], *path: str) -> tuple[list[Any], Issues]:
    issues = Issues()
    call = resolve(function, (ColumnRef("t", "j", STRING), *(Literal(p, STRING) for p in path)))
    # A slice of a longer array: kernels get buffers that begin elsewhere.
    column = pa.array(["first", *texts, "last"], pa.string()).slice(1, len(texts))
    return compile_expression(call)({("t", "j"): column}, len(texts), issues).to_pylist(), issues


@pytest.mark.parametrize("seed", range(4))
def test_values_are_those_of_a_parser(seed: int) -> None:
    random = Random(seed)
    texts = [text(random) for _ in range(400)]
    known = [parsed(found) for found in texts]
    wrong = sum(not good for (good, _), found in zip(known, texts, strict=True) if found is not None)
    valid, _ = ask("json_valid", texts)
    assert valid == [None if found is None else good for found, (good, _) in zip(texts, known, strict=True)]
    for path in PATHS:
        there = [at(whole, path) if good else (False, None) for good, whole in known]
        strings, issues = ask("json_extract_string", texts, path)
        values, _ = ask("json_extract", texts, path)
        lengths, _ = ask("json_array_length", texts, path)
        assert issues.counts == ({"json": wrong} if wrong else {})
        for (found, right), string, whole, length in zip(there, strings, values, lengths, strict=True):
            assert length == (None if not found else len(right) if isinstance(right, list) else 0)
            assert (whole is None) == (not found)
            if found:
                assert parsed(whole) == (True, right) and not any(letter in " \n\t" for letter in _outside(whole))
            if isinstance(right, str):
                assert string == right
            else:
                assert string == (whole if found and right is not None else None)


def _outside(found: str) -> str:
    """A JSON text without its strings."""
    return "".join(
        part for place, part in enumerate(found.replace("\\\\", "").replace('\\"', "").split('"')) if place % 2 == 0
    )


def test_duckdb_says_the_same() -> None:
    random = Random(9)
    texts = [json.dumps(value(random)) for _ in range(300)]
    connection = duckdb.connect()
    connection.register("texts", pa.table({"j": texts}))
    for path in PATHS:
        theirs = connection.sql(
            f"SELECT json_extract_string(j, '{path}') AS s, json_array_length(j, '{path}') AS n FROM texts"
        ).fetchall()
        strings, _ = ask("json_extract_string", texts, path)
        lengths, _ = ask("json_array_length", texts, path)
        plain = [s if s is None or not s.startswith(("{", "[")) else json.loads(s) for s, _ in theirs]
        assert [s if s is None or not s.startswith(("{", "[")) else json.loads(s) for s in strings] == plain
        assert lengths == [n for _, n in theirs]


def test_deep_and_empty_texts() -> None:
    texts: list[str | None] = ["[" * 256 + "]" * 256, "[" * 257 + "]" * 257, "", "  "]
    assert ask("json_valid", texts)[0] == [True, False, False, False]
    assert ask("json_extract", [], "$.a")[0] == []
    assert np.array_equal(ask("json_array_length", ["[1]"], "$")[0], [1])
