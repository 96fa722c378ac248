"""Random files of good lines and lines that nobody should write: each line is a row or a bad row, with its number."""

from __future__ import annotations

import gzip
import random
import re

import pytest

from eddyline.connectors.files.files import open_source
from eddyline.model.datatypes import BIGINT, DOUBLE, STRING, TIMESTAMP, decimal
from eddyline.model.schema import Column, Schema, Stream
from eddyline.tuning import InputTuning
from tests.seeds import cases, first_seed

SCHEMA = Schema(
    (
        Column("note", STRING),
        Column("k", BIGINT),
        Column("x", DOUBLE),
        Column("price", decimal(8, 2)),
        Column("ts", TIMESTAMP),
    )
)
#: Lines that are rows; `%d` is the number of the line, which is `k`.
JSON_ROWS = [
    b'{"note": "a", "k": %d, "x": 1.5, "price": 1.25, "ts": "2024-01-01 12:00:00"}',
    b' \t{"k":%d,"ts":"2024-01-01 12:00:00"} \r',
    b'{"k": %d, "ts": "9999-12-31 23:59:59.999999"}',
    b'{"k": %d, "k2": null, "note": "\xc3\xa9 \\ud83e\\udd86", "ts": "2024-01-01 12:00:00"}',
    b'{"k": "%d", "note": "\\ud800", "ts": "2024-01-01 12:00:00"}',
    b'{"k": %d, "more": [null, {"a": [[]]}], "ts": "2024-01-01 12:00:00"}',
    b'{"k": %d, "note": "' + b"x" * 3000 + b'", "ts": "2024-01-01 12:00:00"}',
    b'{"k": %d, "note": null, "x": null, "price": null, "ts": "2024-01-01 12:00:00"}',
    b'{"k": %d, "x": 1e999, "ts": "2024-01-01 12:00:00"}',
]
JSON_BAD = [
    *(
        b"null",
        b" null\t",
        b"null null",
        b"true",
        b"1",
        b"-0.0e99999",
        b'"text"',
        b"[]",
        b"[null]",
        b"[" * 300 + b"]" * 300,
        b"{",
        b"}",
    ),
    *(
        b"{}",
        b"{} {}",
        b"{}null{}",
        b'{"k": 1}{"k": 2}',
        b'{"k": null}',
        b" ",
        b"\t \t",
        b"nul",
        b"NaN",
        b"\x00",
        b"\xff",
        b"\xef\xbb\xbf{}",
    ),
    *(
        b'{"k": \x001}',
        b'{"ts": "2024-01-01 12:00:00", "k": 1',
        b'"k": 1}',
        b'{"note": "\xed\xa0\x80", "ts": "2024-01-01 12:00:00"}',
    ),
    *(
        b'{"ts": "2024-01-01 12:00:00", "k": 1' + b"0" * 400 + b"}",
        b'{"ts": "2024-01-01 12:00:00", "x": ' + b'{"a":' * 300 + b"1" + b"}" * 301,
    ),
    *(
        b'{"note": "a\x00b\xff", "ts": "2024-01-01 12:00:00"}',
        b'{"ts": "10000-01-01 00:00:00"}',
        b"//",
        b'{"ts": "2024-01-01 12:00:00",}',
    ),
]
CSV_ROWS = [
    b"a,%d,1.5,1.25,2024-01-01 12:00:00",
    b'"a, b",%d,,,2024-01-01 12:00:00',
    b"\xc3\xa9,%d,nan,0,9999-12-31 23:59:59.999999",
    b'"' + b"x" * 3000 + b'",%d,,,2024-01-01 12:00:00\r',
    b"null,%d,,,2024-01-01 12:00:00",
    b'"a\rb",%d,,,2024-01-01 12:00:00',
]
CSV_BAD = [
    b"a,1,1,1,2024-01-01 12:00:00\ra,1,1,1,2024-01-01 12:00:00",
    *(
        b"null",
        b"\xff",
        b"\xff,\xfe",
        b"only,\xfftwo",
        b"a,b,c,d,e,f,\xff",
        b",,,,",
        b'"',
        b'"open,1,1,1,2024-01-01 12:00:00',
        b"\x00",
        b",",
    ),
    *(
        b"\xff,1,1,1,2024-01-01 12:00:00",
        b"a,\xff,1,1,2024-01-01 12:00:00",
        b"a,1,1,1,10000-01-01 00:00:00",
        b"a,1,1,1," + b"9" * 3000,
    ),
    *(
        b"a,9" + b"9" * 400 + b",1,1,2024-01-01 12:00:00",
        b"\xed\xa0\x80,1,1,1,2024-01-01 12:00:00",
        b'a"b,"c"d,1,1,2024-01-01 12:00:00',
    ),
    *(b"a,1,1,1,2024-01-01 12:00:00,", b'\xff"\xff,1,1,1,2024-01-01 12:00:00', b"a,1,1,1", b"{}", b"[" * 300),
]


def random_file(
    draw: random.Random, rows: list[bytes], bad: list[bytes], lines: int
) -> tuple[bytes, list[int], list[int]]:
    """Its bytes, and the numbers of the lines that are rows and of those that are not."""
    share = draw.choice([0.0, 0.01, 0.3, 1.0])
    text, good, others = [], [], []
    for number in range(2, lines + 2):
        if draw.random() < 0.05:
            text.append(draw.choice([b"", b"\r"]))
        elif draw.random() < share:
            text.append(draw.choice(bad))
            others.append(number)
        else:
            line = draw.choice(rows)
            text.append(line % number)
            good.append(number)
    return b"\n".join(text) + draw.choice([b"", b"\n", b"\n\n"]), good, others


def everything(folder, kind: str, tuning: InputTuning, size: int) -> tuple[list[int], list[int], list[str]]:
    options = {"format": kind, "path": str(folder), **({"header": "true"} if kind == "csv" else {})}
    source = open_source(Stream("s", SCHEMA, "ts", options=options), tuning=tuning)
    good, bad, reasons = [], [], []
    while (chunk := source.read(size)) is not None:
        good += chunk.rows.column("k").to_pylist()
        for reason in [] if chunk.bad is None else chunk.bad.column("_reason").to_pylist():
            found = re.match(r"bad: a\.\S+ line (\d+): .", reason)
            assert found, reason
            bad.append(int(found[1]))
            reasons.append(reason)
    return good, sorted(bad), reasons


@pytest.mark.parametrize("kind", ["csv", "jsonl", "json"])
@pytest.mark.parametrize("seed", range(cases(40)))
def test_each_line_of_a_hostile_file_is_a_row_or_a_bad_row(tmp_path, kind: str, seed: int) -> None:
    draw = random.Random(f"{kind} {first_seed()} {seed}")
    rows, others = (CSV_ROWS, CSV_BAD) if kind == "csv" else (JSON_ROWS, JSON_BAD)
    text, good, bad = random_file(draw, rows, others, draw.choice([1, 2, 30, 400]))
    # A file of format json whose first line is an object holds lines.
    first = b"note,k,x,price,ts\n" if kind == "csv" else b'{"k": 1, "ts": "2024-01-01 12:00:00"}\n'
    good = good if kind == "csv" else [1, *good]
    zipped = draw.random() < 0.2
    (tmp_path / f"a.{kind}{'.gz' if zipped else ''}").write_bytes((gzip.compress if zipped else bytes)(first + text))
    tuning = InputTuning(text_bytes=draw.choice([64, 1000, 4 << 20]), threaded_bytes=draw.choice([1, 1 << 20]))
    found = everything(tmp_path, kind, tuning, draw.choice([1, 7, 1000]))
    assert found[:2] == (good, bad)


@pytest.mark.parametrize("line", JSON_BAD)
def test_a_bad_json_line_may_be_the_first_or_the_last(tmp_path, line: bytes) -> None:
    row = b'{"k": %d, "ts": "2024-01-01 12:00:00"}\n'
    (tmp_path / "a.jsonl").write_bytes(line + b"\n" + row % 2 + line)
    good, bad, _ = everything(tmp_path, "jsonl", InputTuning(), 10)
    assert (good, bad) == ([2], [1, 3])


def test_a_line_of_blanks_and_two_objects_on_another_are_not_two_rows(tmp_path) -> None:
    row = b'{"k": 1, "ts": "2024-01-01 12:00:00"}'
    (tmp_path / "a.jsonl").write_bytes((row + b"\n") * 100 + b"  \n" + row + row + b"\n" + (row + b"\n") * 100)
    good, bad, reasons = everything(tmp_path, "jsonl", InputTuning(), 1000)
    assert len(good) == 200 and bad == [101, 102] and "something follows the value" in reasons[1]


def test_a_csv_line_that_is_no_text_says_how_many_values_it_has(tmp_path) -> None:
    (tmp_path / "a.csv").write_bytes(b"note,k,x,price,ts\n" + b"\xff,1\n" + b"\xff,1,1,1,2024-01-01 12:00:00\n")
    good, bad, reasons = everything(tmp_path, "csv", InputTuning(), 10)
    assert good == [] and bad == [2, 3]
    assert reasons[0] == "bad: a.csv line 2: it has 2 values where 5 were expected" and "UTF8" in reasons[1]


def test_a_csv_line_that_is_two_rows_does_not_make_up_for_two_lines_that_are_one(tmp_path) -> None:
    """A parser that is given the stretch finds as many rows as there are lines; each line alone is something else."""
    row = b",%d,1,1,2024-01-01 12:00:00"
    lines = [b'"x', b'y"' + row % 1, b"a" + row % 2 + b"\rb" + row % 3]
    (tmp_path / "a.csv").write_bytes(b"note,k,x,price,ts\n" + b"\n".join(lines) + b"\n")
    good, bad, reasons = everything(tmp_path, "csv", InputTuning(), 10)
    assert len(good) == 1 and bad == [2, 4], (good, reasons)
    assert everything(tmp_path, "csv", InputTuning(text_bytes=16), 10) == (good, bad, reasons)
