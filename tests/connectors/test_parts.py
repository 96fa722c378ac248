"""A file that is read in parts, wherever it is cut, has the rows, the bad rows and the lines of the whole file."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline.connectors.files.blocks import FileReading, RecordBlock
from eddyline.connectors.files.chunks import read_chunks
from eddyline.connectors.files.files import FileSource
from eddyline.connectors.files.listing import DataFile
from eddyline.connectors.files.parts import (
    PACKED,
    FilePart,
    RowGroup,
    group_parts,
    is_divisible,
    row_groups,
    text_parts,
)
from eddyline.connectors.files.readers import reader_of
from eddyline.connectors.formats.conform import with_line_numbers
from eddyline.connectors.formats.text import read_csv, read_json
from eddyline.connectors.guarded.parsing_marks import Marks
from eddyline.model.clock import WALL
from eddyline.model.datatypes import BIGINT, STRING, TIMESTAMP
from eddyline.model.schema import Column, Schema, Stream
from eddyline.tuning import InputTuning
from tests.seeds import cases, first_seed, some

SCHEMA = Schema((Column("k", BIGINT), Column("s", STRING), Column("ts", TIMESTAMP)))
Letters = list[tuple[str, ...]]

CSV = [
    b"",
    b"\n",
    b"\n\r\n \n",
    b"k,s,ts",
    b"k,s,ts\n1,a,2024-01-01 00:00:00\n",
    b"k,s,ts\n1,a,2024-01-01 00:00:00\nx,b,2024-01-01 00:00:01\n3,c,2024-01-01 00:00:02",
    b"k,s,ts\r\n1,a,2024-01-01 00:00:00\r\n\r\n2,b,2024-01-01 00:00:01\r\nx,y\r\n",
    b"\xef\xbb\xbfk,s,ts\n1,\xc3\xa4,2024-01-01 00:00:00\n2,\xff,2024-01-01 00:00:01\n\n",
    b"\n\r\nk,s,ts\n\n1,a,2024-01-01 00:00:00\n\n\n2,b,\n3,b,2024-01-01 00:00:00\n\n",
    b'k,s,ts\n1,"a\nb",2024-01-01 00:00:00\n2,"b",2024-01-01 00:00:01\n3,"x ""y""",2024-01-01 00:00:02\n',
    b'k,s,ts\n1,"open,2024-01-01 00:00:00\n2,b",2024-01-01 00:00:01\n3,c\rd,2024-01-01 00:00:02\n4,"e,\r\n',
    b"ts,k,other\n2024-01-01 00:00:00,1,a\n",
    # What Arrow reads otherwise where a text begins or ends: a mark of UTF-8, and nothing after a value in quotes.
    b"k,ts,s\n1,2024-01-01 00:00:00,a\n\xef\xbb\xbf2,2024-01-01 00:00:01,b\n\xef\xbb\xbf3,2024-01-01 00:00:02,c",
    b'ts,k,s\n"2024-01-01 00:00:00",1,\n2024-01-01 00:00:01,"1",\r\n"2024-01-01 00:00:02","1",',
    b's,ts,k\na"b,"2024-01-01 00:00:00",\na"b,"2024-01-01 00:00:01",',
    b'ts,k,s\n2024-01-01 00:00:00,1,","\n2024-01-01 00:00:01,1,",\n2024-01-01 00:00:02,"1",\n',
]
JSONL = [
    b"",
    b'{"k": 1, "s": "a", "ts": "2024-01-01 00:00:00"}\n\nnull\n{"k": "x", "ts": 5}\n{"k": 2, "s": "\\n", "ts": 6}',
    b'\xef\xbb\xbf{"k": 1, "ts": 7}\r\n{"k":\n2}\n{"k": 3, "s": {"a": 1}, "ts": 8}\r\n\r\n[1]\n{"k": 4, "ts": "never"}\n',
    b'{"k": 1, "ts": 7}\n\xef\xbb\xbf{"k": 2, "ts": 8}\n\xef\xbb\xbf{"k": 3, "ts": 9}\n{"k": 4, "ts": 9}',
    b'{"k": 1, "s": "\xff", "ts": 7}\n{"k": 2, "s": "b", "ts": 8} {"k": 3}\n',
]


def stream(kind: str, **options: str) -> Stream:
    return Stream("a", SCHEMA, "ts", options={"format": kind, "path": "-", **options})


def read(of: Stream, path: Path, part: FilePart | None, before: int = 0) -> tuple[list[dict], Letters]:
    rows: list[dict] = []
    letters: Letters = []
    for chunk in read_chunks(of, DataFile(path.name, str(path)), part=part):
        rows += chunk.rows.to_pylist()
        if chunk.bad is not None:
            bad = with_line_numbers(chunk.bad, path.name, before) if before else chunk.bad
            letters += [tuple(map(str, row.values())) for row in bad.to_pylist()]
    return rows, letters


def in_parts(of: Stream, path: Path, cuts: list[int]) -> tuple[list[dict], Letters]:
    rows: list[dict] = []
    letters: Letters = []
    before = 0
    for begin, end in pairwise([0, *cuts, None]):
        part = FilePart(begin or 0, end)
        found = read(of, path, part, before)
        rows += found[0]
        letters += found[1]
        before += part.lines
    return rows, letters


def same(of: Stream, path: Path, cuts: list[int], whole: tuple[list[dict], Letters]) -> None:
    rows, letters = in_parts(of, path, cuts)
    assert rows == whole[0], cuts
    # Within a stretch, lines that are no rows come before rows that do not fit.
    assert sorted(letters) == sorted(whole[1]), cuts


def texts() -> Iterator[tuple[str, bytes, dict[str, str]]]:
    for content in CSV:
        yield "csv", content, {}
        yield "csv", content, {"header": "false"}
    for content in JSONL:
        yield "jsonl", content, {}


@pytest.mark.parametrize(("kind", "content", "options"), list(texts()))
def test_every_cut_of_a_text_file_gives_the_same_rows(
    tmp_path: Path, kind: str, content: bytes, options: dict[str, str]
) -> None:
    path, of = tmp_path / "1.txt", stream(kind, **options)
    path.write_bytes(content)
    whole = read(of, path, None)
    size = len(content)
    for cut in range(1, size + 3):
        same(of, path, [cut], whole)
    random = Random(first_seed(9_200))
    for _ in range(cases(40)):
        same(of, path, sorted(random.sample(range(1, size + 3), random.randint(1, min(size + 2, 6)))), whole)


def test_a_line_is_read_alike_wherever_a_stretch_begins_or_ends(tmp_path: Path) -> None:
    """Arrow leaves out a mark of UTF-8 where a text begins, and takes nothing at its end for an empty text where the
    value before was in quotes."""
    path, of = tmp_path / "1.csv", stream("csv")
    lines = [f'"2024-01-01 00:00:0{n}",{n},' for n in range(4)]
    for content in ("\n".join(["ts,k,s", *lines]), "\r\n".join(["ts,k,s", *lines, ""])):
        path.write_text(content, newline="")
        for cuts in ([], [len(content) // 2]):
            rows, letters = in_parts(of, path, cuts)
            assert [(row["k"], row["s"]) for row in rows] == [(n, None) for n in range(4)] and not letters
    path.write_text("k,s,ts\n" + "\n".join(f"\ufeff{n},a,2024-01-01 00:00:00" for n in range(4)))
    for cuts in ([], [30], [40, 60]):
        rows, letters = in_parts(of, path, cuts)
        assert not rows and [letter[0] for letter in letters] == [f"\ufeff{n}" for n in range(4)]


def test_a_carriage_return_and_an_empty_line_do_not_make_up_for_each_other(tmp_path: Path) -> None:
    """Arrow ends a line at a carriage return, and counts no empty lines: the lines were as many, and others."""
    path, of = tmp_path / "1.csv", stream("csv")
    good = [f"{n},a,2024-01-01 00:00:00" for n in range(3)]
    split = "0,b\r7,c,2024-01-01 00:00:09"
    for empty in ("\r\r", "\r\r\r"):
        for order in ([good[0], split, good[1], empty, good[2]], [empty, split, *good], [*good, split, empty]):
            path.write_text("\n".join(["k,s,ts", *order]), newline="")
            rows, letters = read(of, path, None)
            assert [row["k"] for row in rows] == [0, 1, 2], order
            assert sorted(letters) == sorted(
                (
                    order[place].rstrip("\r"), "None", "None",
                    f"bad: 1.csv line {place + 2}: the line is not one record",
                )
                for place in (order.index(split), order.index(empty))
            )  # fmt: skip


def test_a_quote_within_a_value_opens_none(tmp_path: Path) -> None:
    path, of = tmp_path / "1.csv", stream("csv")
    path.write_text("s,ts,k\n" + "\n".join(f'a"b,"2024-01-01 00:00:0{n}",' for n in range(3)))
    for cuts in ([], [30], [50]):
        rows, letters = in_parts(of, path, cuts)
        assert [(row["s"], row["k"]) for row in rows] == [('a"b', None)] * 3 and not letters


def test_a_part_of_a_file_that_has_become_shorter_says_so(tmp_path: Path) -> None:
    path, of = tmp_path / "1.csv", stream("csv")
    path.write_text("k,s,ts\n" + "\n".join(f"{n},a,2024-01-01 00:00:00" for n in range(4)))
    size = path.stat().st_size
    os.truncate(path, size - 30)
    said = f"bad: 1.csv cannot be read from byte {size - 30} on: it has become shorter since it was listed"
    for begin, left in ((7, [0, 1]), (size - 20, [])):
        rows, letters = read(of, path, FilePart(begin, None, least=size))
        assert [row["k"] for row in rows][: len(left)] == left and letters[-1][-1] == said
    assert not read(of, path, FilePart(7, None, least=size - 30))[1][1:]
    parquet.write_table(pa.table({"k": [1, 2], "s": ["a", "b"], "ts": pa.array([1, 2], pa.timestamp("us"))}), path)
    for part in (FilePart(0, 3), FilePart(2, 3, 20)):
        rows, letters = read(stream("parquet"), path, part)
        assert len(rows) == 2 * (part.begin == 0)
        assert [letter[-1] for letter in letters] == [
            "bad: 1.csv cannot be read from row 3 on: it has 1 row groups, fewer than when it was listed"
        ]


def test_bad_rows_of_a_file_that_cannot_be_sought_are_read_again_once(tmp_path: Path) -> None:
    """A compressed file is read from its beginning: not once more for each stretch with a bad row."""
    path, of = tmp_path / "1.csv.gz", stream("csv")
    lines = [f"{'bad' if n % 8 == 0 else n},{'text' * 9},2024-01-01 00:00:00" for n in range(400)]
    with gzip.open(path, "wt") as file:
        file.write("\n".join(["k,s,ts", *lines]))
    inner, blocks = reader_of(of.options, "it", InputTuning(text_bytes=500)), []

    def counting(reading: FileReading) -> Iterator[RecordBlock]:
        for block in inner(reading):
            blocks.append(reading.columns)
            yield block

    source = FileSource(of, str(path), counting, frozenset({"k", "ts"}), False, WALL, InputTuning())
    letters = [letter for chunk in iter(lambda: source.read(1 << 20), None) for letter in chunk.bad.to_pylist()]
    assert len(letters) == 50 and all(letter["s"] == "text" * 9 for letter in letters)
    assert blocks.count(frozenset({"k", "ts"})) > 30 and blocks.count(None) < 2 * blocks.count(frozenset({"k", "ts"}))


def test_a_part_counts_the_lines_that_begin_in_it(tmp_path: Path) -> None:
    content = b"\nk,s,ts\r\n1,a,2024-01-01 00:00:00\n\n2,b,2024-01-01 00:00:01"
    path, of = tmp_path / "1.csv", stream("csv")
    path.write_bytes(content)
    begins = [0] + [at + 1 for at, byte in enumerate(content) if byte == 10]
    for cut in range(1, len(content)):
        parts = [FilePart(0, cut), FilePart(cut, None)]
        for part in parts:
            read(of, path, part)
        assert [part.lines for part in parts] == [sum(b < cut for b in begins), sum(b >= cut for b in begins)], cut


@pytest.mark.parametrize("portion", [1, 3, 16, 64])
def test_parts_do_not_depend_on_how_much_is_read_at_once(tmp_path: Path, portion: int) -> None:
    tuning = InputTuning(text_bytes=portion)
    for kind, content, options in texts():
        path, of = tmp_path / "1.txt", stream(kind, **options)
        path.write_bytes(content)
        rows, file = len(read(of, path, None)[0]), DataFile("1.txt", str(path))
        for cut in some(range(1, len(content))):
            found = lines_of = 0
            for part in (FilePart(0, cut), FilePart(cut, None)):
                reader = read_json if kind == "jsonl" else read_csv
                more = {} if kind == "jsonl" else {"header": options.get("header", "true") == "true"}
                blocks = reader(FileReading(file, SCHEMA, part=part), tuning=tuning, **more)
                found += sum(block.count for block in blocks)
                lines_of += part.lines
            records = sum(block.count for block in reader(FileReading(file, SCHEMA), tuning=tuning, **more))
            assert found == records and rows <= records, (content, cut)
            expected = content.count(b"\n") + (not content.endswith(b"\n") and content not in (b"",))
            assert lines_of == expected or (found == 1 and not rows), (content, cut)


def test_row_groups_are_read_apart(tmp_path: Path) -> None:
    path, of = tmp_path / "1.parquet", stream("parquet")
    rows = pa.table(
        {
            "k": list(range(10)),
            "s": [str(n) for n in range(10)],
            "ts": pa.array([None if n in (0, 7) else n for n in range(10)], pa.timestamp("us")),
        }
    )
    parquet.write_table(rows, path, row_group_size=3)
    found = path.stat()
    groups = row_groups(str(path), found.st_size, found.st_mtime_ns)
    assert [group.rows for group in groups] == [3, 3, 3, 1]
    whole = read(of, path, None)
    assert any("row 8" in letter[-1] for letter in whole[1])
    for most in (1, found.st_size * 2 // 3, found.st_size * 2):
        for end in (None, 3):
            parts = [part for part, _ in group_parts(groups, 0, end, most)]
            parts += [] if end is None else [part for part, _ in group_parts(groups, end, None, most)]
            pieces = [read(of, path, part) for part in parts]
            assert [row for piece in pieces for row in piece[0]] == whole[0]
            assert [letter for piece in pieces for letter in piece[1]] == whole[1]
    assert row_groups(str(tmp_path / "none.parquet"), 1, 1) == ()


def test_a_part_of_row_groups_begins_with_them_whether_or_not_the_rows_before_are_known(tmp_path: Path) -> None:
    """A planning process that cannot read the row groups does not know how many rows are before the part."""
    path, of = tmp_path / "1.parquet", stream("parquet")
    times = pa.array([None if n == 7 else n for n in range(10)], pa.timestamp("us"))
    parquet.write_table(
        pa.table({"k": list(range(10)), "s": [str(n) for n in range(10)], "ts": times}), path, row_group_size=3
    )
    for begin, first in ((1, 3), (2, 6), (3, 9), (4, 10)):
        for end in (None, 3):
            known, unknown = read(of, path, FilePart(begin, end, first)), read(of, path, FilePart(begin, end))
            assert known == unknown
            assert [row["k"] for row in unknown[0]] == [n for n in range(first, 10 if end is None else 9) if n != 7]
            assert len(unknown[1]) == (first <= 7) and all("row 8:" in letter[-1] for letter in unknown[1])
    [letter] = read(of, path, FilePart(9, None, 10))[1]
    assert "it has 4 row groups, fewer than when it was listed" in letter[-1]


@pytest.mark.parametrize("first", [0, 6])
def test_a_suspect_part_is_read_from_where_it_begins(tmp_path: Path, first: int) -> None:
    path, of = tmp_path / "1.parquet", stream("parquet")
    parquet.write_table(
        pa.table({"k": list(range(10)), "s": ["a"] * 10, "ts": pa.array(range(10), pa.timestamp("us"))}),
        path,
        row_group_size=3,
    )
    if (child := os.fork()) == 0:
        with Marks(str(tmp_path / "marks")).of("part").parsing(0, 4):
            os._exit(0)
    os.waitpid(child, 0)
    marks = Marks(str(tmp_path / "marks")).of("part")
    assert marks.suspects() == [(0, 4)]
    chunks = read_chunks(of, DataFile(path.name, str(path)), marks, FilePart(2, None, first))
    assert [row["k"] for chunk in chunks for row in chunk.rows.to_pylist()] == [6, 7, 8, 9]


def test_ranges_are_about_equal_and_follow_one_another() -> None:
    assert [(p.begin, p.end, size) for p, size in text_parts(0, None, 10, 4)] == [(0, 3, 3), (3, 6, 3), (6, None, 4)]
    assert [(p.begin, p.end) for p, _ in text_parts(5, 10, 100, 3)] == [(5, 7), (7, 10)]
    assert [(p.begin, p.end) for p, _ in text_parts(5, None, 3, 3)] == [(5, None)]
    groups = (RowGroup(5, 10), RowGroup(6, 10), RowGroup(7, 10))
    assert [(p.begin, p.end, p.first, size) for p, size in group_parts(groups, 1, None, 10)] == [
        (1, 2, 5, 10),
        (2, None, 11, 10),
    ]


def test_what_is_one_record_per_line_and_plain_is_cut() -> None:
    for name, options, divisible in (
        ("1.csv", {"format": "csv"}, True),
        ("1.csv", {"format": "CSV", "multiline": "on"}, False),
        ("1.csv.gz", {"format": "csv"}, False),
        ("1.JSONL.ZST", {"format": "jsonl"}, False),
        ("1.jsonl", {"format": "jsonl"}, True),
        ("1.json", {"format": "json"}, False),
        ("1", {}, True),
    ):
        assert is_divisible(options, name) == divisible, (name, options)
    assert all(pa.Codec.detect(f"a{ending}") for ending in PACKED)


def test_only_reasons_with_lines_are_numbered_anew() -> None:
    reasons = [
        "bad: f.csv line 2: line 3: \nx",
        "bad: f.csv cannot be read: no",
        "bad: g line 1: x",
        "bad: f.csv line x",
    ]
    table = with_line_numbers(pa.table({"s": ["a"] * 4, "_reason": reasons}), "f.csv", 40)
    assert table.column("_reason").to_pylist() == ["bad: f.csv line 42: line 3: \nx", *reasons[1:]]
