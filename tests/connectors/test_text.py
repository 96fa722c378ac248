"""CSV and JSON files: values, nulls, bad lines with their numbers, compression, exact positions."""

import json
import random
import time
from datetime import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from eddyline.connectors.files.ahead import side_by_side
from eddyline.connectors.files.files import open_source
from eddyline.connectors.formats.csv_types import Typed
from eddyline.model.datatypes import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, decimal
from eddyline.model.schema import Column, Schema, Stream
from eddyline.tuning import InputTuning
from tests.pace import slowness
from tests.seeds import cases, first_seed

SCHEMA = Schema((Column("note", STRING), Column("k", BIGINT), Column("price", decimal(8, 2)), Column("ts", TIMESTAMP)))
NOON = datetime(2024, 1, 1, 12)
HEADER = "note,k,price,ts\n"
GOOD = 'a,1,1.50,2024-01-01 12:00:00\n"b, ""c""",2,2,2024-01-01T12:00:00Z\n'


def source(tmp_path, text, name="a.csv", schema=SCHEMA, columns=None, tuning=None, **options):
    data = text if isinstance(text, bytes) else text.encode()
    with pa.output_stream(str(tmp_path / name)) as stream:
        stream.write(data)
    kind = "csv" if ".csv" in name else "jsonl"
    return open_source(
        Stream("s", schema, "ts", options={"format": kind, "path": str(tmp_path), **options}),
        columns,
        tuning=tuning or InputTuning(),
    )


def everything(source, size=1000):
    rows, bad = [], []
    while (chunk := source.read(size)) is not None:
        rows += chunk.rows.to_pylist()
        bad += [] if chunk.bad is None else chunk.bad.to_pylist()
    return rows, bad


def test_csv_values_have_their_declared_types(tmp_path):
    rows, bad = everything(source(tmp_path, HEADER + GOOD))
    assert bad == []
    assert rows == [
        {"note": "a", "k": 1, "price": Decimal("1.50"), "ts": NOON},
        {"note": 'b, "c"', "k": 2, "price": Decimal("2.00"), "ts": NOON},
    ]


def test_csv_columns_may_stand_in_another_order_with_others_between(tmp_path):
    rows, bad = everything(source(tmp_path, "ts,extra,K,price,note\n2024-01-01 12:00:00,zzz,7,3,x\n"))
    assert bad == [] and rows == [{"note": "x", "k": 7, "price": Decimal("3.00"), "ts": NOON}]


def test_an_empty_value_is_null_and_quotes_make_it_empty_text(tmp_path):
    rows, _ = everything(source(tmp_path, HEADER + ',,,2024-01-01 12:00:00\n"","",1,2024-01-01 12:00:00\n'))
    assert [(r["note"], r["k"]) for r in rows] == [(None, None), ("", None)]


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
@pytest.mark.parametrize("portion", [32, 100, 700, 5000])
@pytest.mark.parametrize("threaded", [1, 300, 1 << 20])
def test_rows_are_the_same_however_many_bytes_are_read_at_once_and_by_whichever_thread(
    tmp_path, name, portion, threaded
):
    draw = random.Random(portion)
    lines = [
        '"a, b",7,1.5,2024-01-01 12:00:00',
        "short,1",
        ",,,2024-01-01 12:00:00",
        '"open,1,1,2024-01-01 12:00:00',
        'closed",1,1,2024-01-01 12:00:00',
        "x" * 60 + ",1,1,2024-01-01 12:00:00",
        "text,not a number,1,2024-01-01 12:00:00",
        "",
        'long,1,1,2024-01-01 12:00:00,"and more"',
    ]
    for share in (0.0, 0.02, 0.5):
        text = HEADER + "".join(
            (draw.choice(lines) if draw.random() < share else f"n{number},{number},1,2024-01-01 12:00:00") + "\n"
            for number in range(300)
        )
        text = draw.choice(["", "\ufeff"]) + (text if draw.random() < 0.5 else text.rstrip("\n"))
        whole = everything(source(tmp_path, text, name))
        rows, bad = everything(
            source(tmp_path, text, name, tuning=InputTuning(text_bytes=portion, threaded_bytes=threaded))
        )
        assert rows == whole[0] and sorted(map(repr, bad)) == sorted(map(repr, whole[1]))
        assert len(whole[0]) + len(whole[1]) == sum(1 for line in text.splitlines()[1:] if line)


def test_what_is_worked_on_side_by_side_comes_in_order_and_a_problem_after_everything_before_it():
    def items(stop):
        yield from range(stop)
        raise OSError("torn")

    def work(item):
        time.sleep(0.002 * (item % 3 == 0))
        if item == 40:
            raise ValueError("forty")
        return -item

    for stop, problem in ((30, OSError), (60, ValueError)):
        for worth in (lambda item: True, lambda item: False, lambda item: item % 5 > 1):
            found = []
            with pytest.raises(problem):
                for made in side_by_side(items(stop), work, worth):
                    found.append(made)
            assert found == [-item for item in range(min(stop, 40))]


def test_csv_without_header_with_another_delimiter(tmp_path):
    rows, _ = everything(source(tmp_path, "x;1;2.5;2024-01-01 12:00:00\r\n", delimiter=";", header="false"))
    assert rows == [{"note": "x", "k": 1, "price": Decimal("2.50"), "ts": NOON}]


def test_bad_csv_lines_are_dead_lettered_with_line_number_and_text(tmp_path):
    text = (
        HEADER
        + "a,1,1,2024-01-01 12:00:00\n\nonly,two\nb,2,2,2024-01-01 12:00:00\nc,x,3,2024-01-01 12:00:00\n"
        + "d,4,4,\n"
    )
    rows, bad = everything(source(tmp_path, text))
    assert [r["note"] for r in rows] == ["a", "b"]
    assert [b["note"] for b in bad] == ["only,two", "c", "d"]
    assert bad[0]["_reason"] == "bad: a.csv line 4: it has 2 values where 4 were expected"
    assert bad[1]["_reason"] == "bad: a.csv line 6: column k is declared as BIGINT and holds 'x'" and bad[1]["k"] == "x"
    assert bad[2]["_reason"] == "bad: a.csv line 7: the event time ts is null"


def test_a_stray_quote_costs_one_line(tmp_path):
    text = HEADER + 'a,1,1,2024-01-01 12:00:00\n"b,2,2,2024-01-01 12:00:00\nc,3,3,2024-01-01 12:00:00\n'
    rows, bad = everything(source(tmp_path, text))
    assert [r["note"] for r in rows] == ["a", "c"]
    assert len(bad) == 1 and "line 3" in bad[0]["_reason"]


def test_with_multiline_a_quoted_line_end_belongs_to_the_value(tmp_path):
    text = HEADER + '"two\nlines",1,1,2024-01-01 12:00:00\nb,x,2,2024-01-01 12:00:00\n'
    rows, bad = everything(source(tmp_path, text, multiline="true"))
    assert [r["note"] for r in rows] == ["two\nlines"]
    assert "a.csv line 4:" in bad[0]["_reason"]


def test_text_that_is_not_utf8_is_bad_and_a_mark_at_the_start_is_not(tmp_path):
    data = b"\xef\xbb\xbf" + HEADER.encode() + b"\xff,1,1,2024-01-01 12:00:00\nok,2,2,2024-01-01 12:00:00\n"
    rows, bad = everything(source(tmp_path, data))
    assert [r["note"] for r in rows] == ["ok"] and len(bad) == 1 and "line 2" in bad[0]["_reason"]


def test_an_empty_csv_is_bad_and_one_with_only_a_header_is_not(tmp_path):
    (tmp_path / "b.csv").write_text(HEADER)
    rows, bad = everything(source(tmp_path, "", name="a.csv"))
    assert rows == [] and [b["_reason"] for b in bad] == [
        "bad: a.csv cannot be read: it is empty, where a header line was expected"
    ]


def test_a_csv_without_a_declared_column_has_only_bad_rows(tmp_path):
    _, bad = everything(source(tmp_path, "note,k,ts\na,1,2024-01-01 12:00:00\n"))
    assert [b["_reason"] for b in bad] == ["bad: a.csv line 2: missing column price"] and bad[0]["note"] == "a"


JSON_SCHEMA = Schema((*SCHEMA.columns, Column("v", DOUBLE), Column("ok", BOOLEAN)))


def as_json(*rows):
    return "".join(json.dumps(r) + "\n" for r in rows)


def test_json_values_have_their_declared_types_and_missing_keys_are_null(tmp_path):
    text = as_json(
        {"note": "a", "k": 1, "price": 1.5, "v": 2, "ok": True, "ts": "2024-01-01T12:00:00+00:00", "more": [1]},
        {"ts": "2024-01-01 12:00"},
    )
    rows, bad = everything(source(tmp_path, text, "a.jsonl", JSON_SCHEMA))
    assert bad == []
    assert rows == [
        {"note": "a", "k": 1, "price": Decimal("1.50"), "v": 2.0, "ok": True, "ts": NOON},
        {"note": None, "k": None, "price": None, "v": None, "ok": None, "ts": NOON},
    ]


def test_json_values_of_another_kind_are_taken_as_their_text(tmp_path):
    text = as_json(
        {"note": 5, "k": "7", "price": "2.5", "v": "NaN", "ok": "false", "ts": "2024-01-01 12:00:00"},
        {"note": {"x": [1]}, "k": 3.0, "ts": "2024-01-01 12:00:00"},
        {"note": "c", "k": 3.5, "ts": "2024-01-01 12:00:00"},
        {"note": "d", "k": 4, "ts": 1704110400.5},
    )
    rows, bad = everything(source(tmp_path, text, "a.jsonl", JSON_SCHEMA))
    assert [(r["note"], r["k"], r["price"], r["ok"]) for r in rows] == [
        ("5", 7, Decimal("2.50"), False),
        ('{"x": [1]}', 3, None, None),
    ]
    assert rows[0]["v"] != rows[0]["v"]
    assert [b["_reason"] for b in bad] == [
        "bad: a.jsonl line 3: column k is declared as BIGINT and holds '3.5'",
        "bad: a.jsonl line 4: column ts is declared as TIMESTAMP and holds 1704110400.5",
    ]


@pytest.mark.parametrize("neighbours", [[], [{"ts": "2024-01-01 12:00:00"}], [{"ts": 7}], [{"ts": None, "ok": "t"}]])
def test_a_json_number_is_a_time_in_the_unit_of_the_stream_and_no_boolean(tmp_path, neighbours):
    text = as_json({"ts": 1704110400, "k": 1}, {"ts": 1704110400, "ok": 1}, *neighbours)
    seconds = Schema(JSON_SCHEMA.columns, "s")
    for name, schema, instant in (
        ("plain", JSON_SCHEMA, datetime(1970, 1, 1, 0, 28, 24, 110_400)),
        ("s", seconds, NOON),
    ):
        (tmp_path / name).mkdir()
        rows, bad = everything(source(tmp_path / name, text, "a.jsonl", schema))
        assert (rows[0]["ts"], rows[0]["k"]) == (instant, 1)
        assert bad[0]["_reason"] == "bad: a.jsonl line 2: column ok is declared as BOOLEAN and holds 1"


@pytest.mark.parametrize(
    "odd", ["", "1704110400.5", "2024-01-01 12:00:00", "253402300800", "-62135596801", "9223372036854775807", "x"]
)
def test_a_file_of_integers_as_times_is_parsed_as_its_text_is_read(tmp_path, odd, monkeypatch):
    text = HEADER + "".join(f"{n},{n},1.5,{1704110400 + n}\n" for n in range(50))
    taken = []
    checked = Typed.checked
    monkeypatch.setattr(Typed, "checked", lambda self, *given: taken.append(checked(self, *given)) or taken[-1])
    schema = Schema(tuple(c for c in SCHEMA.columns if c.name != "price"), "s")
    for name, more in (("plain", ""), ("odd", f"50,50,1.5,{odd}\n51,51,1.5,1704110451\n")):
        (tmp_path / name).mkdir()
        rows, bad = everything(source(tmp_path / name, text + more, schema=schema))
        assert [r["ts"] for r in rows[:50]] == [NOON.replace(second=n) for n in range(50)]
        assert len(rows) + len(bad) == (52 if more else 50) and len(bad) == (bool(more) and odd != str(NOON))
    assert taken[0] is not None and all(found is None for found in taken[1:])


def test_a_csv_number_is_a_time_where_the_stream_says_its_unit(tmp_path):
    text = HEADER + "a,1,1.5,1704110400\nb,2,1.5,2024-01-01 12:00:00\n"
    rows, bad = everything(source(tmp_path, text))
    assert [r["note"] for r in rows] == ["b"] and [b["note"] for b in bad] == ["a"]
    rows, bad = everything(source(tmp_path, text, schema=Schema(SCHEMA.columns, "s")))
    assert [r["ts"] for r in rows] == [NOON, NOON] and bad == []


def test_broken_json_lines_are_dead_lettered_with_line_number_and_text(tmp_path):
    good = as_json({"note": "a", "ts": "2024-01-01 12:00:00"})
    text = good.encode() + b'{"note": "cut\n\n[1, 2]\n' + good.encode() + b'{"note":"\xff"}\n{} {}\n'
    rows, bad = everything(source(tmp_path, text, "a.jsonl"))
    assert len(rows) == 2
    assert [b["_reason"].split(":")[1].strip() for b in bad] == [f"a.jsonl line {n}" for n in (2, 4, 6, 7)]
    assert bad[0]["note"] == '{"note": "cut' and bad[1]["note"] == "[1, 2]"


def test_json_documents_are_arrays_or_objects_over_several_lines(tmp_path):
    row = {"note": "a", "k": 1, "price": "1.10", "ts": "2024-01-01 12:00:00"}
    rows, bad = everything(source(tmp_path, json.dumps([row, 7, {**row, "k": 2}], indent=1), "a.json", format="json"))
    assert [r["k"] for r in rows] == [1, 2] and bad[0]["_reason"] == "bad: a.json row 2: a JSON object was expected"
    rows, _ = everything(source(tmp_path, json.dumps(row, indent=1) * 2, "a.json", format="json"))
    assert [r["k"] for r in rows] == [1, 1]
    rows, _ = everything(source(tmp_path, as_json(row), "a.json", format="json"))
    assert [r["k"] for r in rows] == [1]
    rows, bad = everything(source(tmp_path, '[{"k": 1}, ', "a.json", format="json"))
    assert rows == [] and bad[0]["_reason"].startswith("bad: a.json cannot be read")


@pytest.mark.parametrize("suffix", ["gz", "zst", "bz2"])
def test_compressed_files_are_read_as_what_is_in_them(tmp_path, suffix):
    rows, bad = everything(source(tmp_path, HEADER + GOOD, f"a.csv.{suffix}"))
    assert [r["k"] for r in rows] == [1, 2] and bad == []


def test_a_compressed_file_cut_short_gives_its_whole_lines_and_one_bad_row(tmp_path):
    source(tmp_path, HEADER + "".join(f"n{i},{i},1,2024-01-01 12:00:{i % 60:02d}\n" for i in range(5000)), "a.csv.gz")
    path = tmp_path / "a.csv.gz"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    declared = Stream("s", SCHEMA, "ts", options={"format": "csv", "path": str(tmp_path)})
    rows, bad = everything(open_source(declared, tuning=InputTuning(text_bytes=1000)))
    assert 0 < len(rows) < 5000 and [r["k"] for r in rows] == list(range(len(rows)))
    assert len(bad) == 1 and bad[0]["_reason"].startswith(f"bad: a.csv.gz cannot be read after record {len(rows)}")


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
@pytest.mark.parametrize("taken", [1, 2, 3, 7, 30, 99])
def test_a_position_is_exact_among_bad_lines(tmp_path, name, taken):
    small = InputTuning(text_bytes=200)
    if name == "a.csv":
        text = HEADER + "".join("broken\n" if i % 5 == 3 else f"n,{i},1,2024-01-01 12:00:00\n\n" for i in range(100))
    else:
        text = "".join("broken\n" if i % 5 == 3 else as_json({"k": i, "ts": "2024-01-01 12:00:00"}) for i in range(100))
    begun = source(tmp_path, text, name, tuning=small)
    first = begun.read(taken)
    assert len(first.rows) + (0 if first.bad is None else len(first.bad)) == taken
    resumed = source(tmp_path, text, name, tuning=small)
    resumed.seek(begun.saved(begun.position()))
    rows, bad = everything(resumed, 7)
    whole_rows, whole_bad = everything(source(tmp_path, text, name))
    assert first.rows.to_pylist() + rows == whole_rows and len(whole_rows) == 80
    assert ([] if first.bad is None else first.bad.to_pylist()) + bad == whole_bad and len(whole_bad) == 20


def test_a_last_line_without_end_counts_and_lines_longer_than_a_portion_too(tmp_path):
    text = HEADER + f"{'x' * 500},1,1,2024-01-01 12:00:00\ny,2,2,2024-01-01 12:00:00"
    rows, bad = everything(source(tmp_path, text, tuning=InputTuning(text_bytes=64)))
    assert [len(r["note"]) for r in rows] == [500, 1] and bad == []


def test_needed_columns_do_not_change_what_is_bad(tmp_path):
    chunk = source(tmp_path, HEADER + "a,1,oops,2024-01-01 12:00:00\nb,2,2,2024-01-01 12:00:00\n", columns={"k"}).read(
        10
    )
    assert chunk.rows.to_pylist() == [{"k": 2, "ts": NOON}]
    assert chunk.bad.to_pylist()[0]["note"] == "a"


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_a_file_of_nothing_but_bad_lines_does_not_take_forever(tmp_path, name):
    begin = time.process_time()
    rows, bad = everything(source(tmp_path, HEADER + "broken\n" * 20_000, name), 10_000)
    assert rows == [] and len(bad) == 20_000 + (name == "a.jsonl")
    assert time.process_time() - begin < 10 * slowness()


PLAIN_SCHEMA = Schema(
    (
        Column("note", STRING),
        Column("k", BIGINT),
        Column("n", INT),
        Column("x", DOUBLE),
        Column("day", DATE),
        Column("ts", TIMESTAMP),
    )
)
#: Values that Arrow's parser and the cast of text might see differently.
TELLING = {
    "note": ["", '""', "a", "é", '"a, b"', '"say ""so"""', " x "],
    "k": [
        "1",
        "-7",
        "007",
        "+5",
        " 8",
        "\t9",
        "5.0",
        "1e3",
        "0x10",
        "-0x1",
        "9223372036854775807",
        "9223372036854775808",
        "",
        '""',
        '"6"',
        "1_0",
    ],
    "n": ["3", "2147483648", "-2147483648", "0X7", "", " "],
    "x": ["1.5", "nan", "nan(1)", "-inf", "infinity", "1e400", ".5", "5.", "0x1p3", "", "1,5"],
    "day": ["2024-02-29", "2023-02-29", "2024-01-01 10:30:00", "", " 2024-01-01"],
    "ts": [
        *(
            "2024-01-01 12:00:00",
            "2024-01-01T12:00:00Z",
            "2024-01-01 12:00:00.1234567",
            "2024-01-01",
            "2024-01-01 12:00",
            " 2024-01-01 12:00:00",
        ),
        *(
            "0000-01-01 00:00:00",
            "9999-12-31 23:59:59.999999",
            "10000-01-01 00:00:00",
            "",
            "2024-01-01 12:00:00+01:00",
            "12:00",
        ),
    ],
}
USUAL = {"note": "note", "k": "12", "n": "4", "x": "2.25", "day": "2024-01-01", "ts": "2024-01-01 12:00:00.5"}


@pytest.mark.parametrize("columns", [None, ["k"], ["note", "x"]])
def test_values_that_get_their_types_in_the_parser_are_those_that_text_would_give(tmp_path, monkeypatch, columns):
    draw, tried = random.Random(f"{first_seed()} {columns}"), 0
    for case in range(cases(300)):
        strange = [(name, value) for name, values in TELLING.items() for value in values]
        lines = [dict(USUAL) for _ in range(draw.randrange(1, 12))]
        for _ in range(draw.choice([0, 0, 1, 1, 3])):
            name, value = strange[case % len(strange)] if draw.random() < 0.5 else draw.choice(strange)
            draw.choice(lines)[name] = value
        ending = draw.choice(["\n", "\n", "\r\n"])
        text = "".join(",".join(line.values()) + ending + draw.choice(["", "", "", ending]) for line in lines)
        options = {
            "schema": PLAIN_SCHEMA,
            "columns": columns,
            "header": "false",
            "tuning": InputTuning(text_bytes=draw.choice([64, 4 << 20])),
        }
        found = everything(source(tmp_path, text, **options), draw.choice([3, 1000]))
        with monkeypatch.context() as patch:
            patch.setattr(Typed, "takes", lambda typed, lines: False)
            expected = everything(source(tmp_path, text, **options))
        assert repr(found) == repr(expected), text
        tried += bool(expected[0])
    assert tried > cases(300) * 2 // 3
