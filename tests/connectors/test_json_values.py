"""JSON of any depth and size: read, or refused with a ValueError, in the same way wherever it stands."""

import json
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from eddyline import Session
from eddyline.connectors.formats.json_values import DEEPEST, decode, documents, json_text

GOOD = '{"k": "a", "v": 1, "ts": "2024-01-01 00:00:00"}\n'


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def test_values_keep_their_digits():
    assert decode('{"a": 1.10, "b": [2, "x"]}') == {"a": Decimal("1.10"), "b": [2, "x"]}
    assert list(documents('[1] {"a": 2}\n3 ')) == [[1], {"a": 2}, 3]
    assert json_text(decode("9" * 5000)) == "9" * 5000
    assert json_text(decode("1e99999999999999999999")) == "1e99999999999999999999"


@pytest.mark.parametrize(
    "text", ["", "  ", "[", "1 2", "{'a': 1}", "\x00", nested(2000), '{"a":' * 2000, nested(300_000)]
)
def test_what_is_no_value_raises_one_error(text):
    with pytest.raises(ValueError):
        decode(text)


def test_depth_has_one_limit_and_brackets_in_text_do_not_count():
    assert decode(nested(DEEPEST)) is not None
    with pytest.raises(ValueError, match="256 deep"):
        decode(nested(DEEPEST + 1))
    assert decode(json.dumps("[" * 5000 + '\\"{')) == "[" * 5000 + '\\"{'
    assert len(decode("[" + ",".join(["[]"] * 5000) + "]")) == 5000


@pytest.mark.parametrize("neighbours", [0, 1, 500])
@pytest.mark.parametrize("depth", [200, 2000, 100_000])
def test_a_deep_line_is_a_dead_letter_whatever_stands_beside_it(tmp_path: Path, neighbours: int, depth: int):
    line = f'{{"k": "b", "undeclared": {nested(depth)}, "v": 1, "ts": "2024-01-01 00:00:00"}}\n'
    (tmp_path / "1.jsonl").write_text(GOOD * neighbours + line + GOOD)
    session = Session()
    session.execute(
        f"CREATE STREAM s (k STRING, v BIGINT, ts TIMESTAMP) WITH (format='jsonl', path='{tmp_path}', time='ts')"
    )
    query = session.query("q", "SELECT k FROM s")
    session.run()
    reasons = session.dead_letters("s").column("_reason").to_pylist()
    deep = depth > DEEPEST
    assert query.table().num_rows == neighbours + 1 + (not deep)
    assert reasons == ([f"bad: 1.jsonl line {neighbours + 1}: it is nested more than 256 deep"] if deep else [])


def test_the_limit_does_not_depend_on_the_stack():
    def deeper(levels: int) -> object:
        return decode(nested(DEEPEST)) if levels == 0 else deeper(levels - 1)

    assert sys.getrecursionlimit() >= 1000
    assert deeper(300) is not None


def test_documents_that_are_too_deep_are_one_dead_letter(tmp_path: Path):
    (tmp_path / "1.json").write_text(f"[{GOOD.strip()},\n {nested(5000)}]")
    (tmp_path / "2.json").write_text(f"[{GOOD.strip()}]")
    session = Session()
    session.execute(
        f"CREATE STREAM s (k STRING, v BIGINT, ts TIMESTAMP) WITH (format='json', path='{tmp_path}', time='ts')"
    )
    query = session.query("q", "SELECT k FROM s")
    session.run()
    assert query.table().num_rows == 1
    assert session.dead_letters("s").column("_reason").to_pylist() == [
        "bad: 1.json cannot be read: it is nested more than 256 deep"
    ]


def test_enormous_values_are_read_or_dead_letters(tmp_path: Path):
    many = "x" * 10_000_000
    (tmp_path / "1.jsonl").write_text(
        GOOD
        + GOOD.replace('"a"', f'"{many}"')
        + GOOD.replace("1,", "9" * 5000 + ",")
        + GOOD.replace("1,", "1e99999999999999999999,")
    )
    session = Session()
    session.execute(
        f"CREATE STREAM s (k STRING, v BIGINT, ts TIMESTAMP) WITH (format='jsonl', path='{tmp_path}', time='ts')"
    )
    query = session.query("q", "SELECT length(k) AS n FROM s")
    session.run()
    assert query.table().column("n").to_pylist() == [1, 10_000_000]
    reasons = session.dead_letters("s").column("_reason").to_pylist()
    assert len(reasons) == 2 and all(
        "column v is declared as BIGINT" in reason and len(reason) < 300 for reason in reasons
    )
