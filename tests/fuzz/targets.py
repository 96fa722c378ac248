"""Every text that reaches a parser in C, as a function of bytes: it raises where the engine would answer wrongly, and
dies where that dies.

Answer   `TARGETS` has them by name. Each asserts what must hold of any input: every line is a row or a bad row,
         whatever is read at once; whether a text fits does not depend on its neighbours; kernels agree with Python.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from eddyline.connectors.bpmn import read_net
from eddyline.connectors.files.files import open_source
from eddyline.connectors.formats.conversion import convert
from eddyline.connectors.formats.json_values import decode
from eddyline.errors import EddylineError
from eddyline.kernels.texts.form_texts import form_numbers
from eddyline.kernels.texts.text import enclosed, nth_pieces, survey
from eddyline.model.datatypes import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, array, decimal, struct
from eddyline.model.schema import Column, Schema, Stream
from eddyline.tuning import InputTuning
from tests.kernels.test_json_text import ask, parsed
from tests.oracle import kernels as slow

NESTED = struct((("a", BIGINT), ("b", array(STRING))))
SCHEMA = Schema(
    (
        Column("note", STRING),
        Column("k", BIGINT),
        Column("x", DOUBLE),
        Column("price", decimal(8, 2)),
        Column("ok", BOOLEAN),
        Column("xs", array(BIGINT)),
        Column("s", NESTED),
        Column("ts", TIMESTAMP),
    )
)
#: Only types that the csv parser itself gives.
PLAIN = Schema(
    (Column("note", STRING), Column("k", BIGINT), Column("x", DOUBLE), Column("day", DATE), Column("ts", TIMESTAMP))
)
KINDS = (BOOLEAN, INT, BIGINT, DOUBLE, decimal(38, 10), DATE, TIMESTAMP, STRING, array(BIGINT), NESTED)

_FOLDER = tempfile.mkdtemp(prefix="eddyline-fuzz-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)


@contextlib.contextmanager
def _file(data: bytes, name: str) -> Iterator[str]:
    path = os.path.join(_FOLDER, name)
    with open(path, "wb") as file:
        file.write(data)
    yield path


def _shown(rows: pa.Table) -> pa.Table:
    """Dates as numbers: Python has none before the year 1."""
    return rows.cast(pa.schema([(f.name, pa.int32() if pa.types.is_date(f.type) else f.type) for f in rows.schema]))


def _read(path: str, kind: str, schema: Schema, portion: int, **options: str) -> tuple[list[str], list[str]]:
    """All rows and all reasons, as text."""
    stream = Stream("s", schema, "ts", options={"format": kind, "path": path, **options})
    source = open_source(stream, tuning=InputTuning(text_bytes=portion))
    rows: list[str] = []
    bad: list[str] = []
    while (chunk := source.read(1000)) is not None:
        chunk.rows.validate(full=True)
        rows += map(repr, _shown(chunk.rows).to_pylist())
        bad += [] if chunk.bad is None else chunk.bad.column("_reason").to_pylist()
    return rows, sorted(bad)


def _lines(kind: str, schema: Schema, **options: str) -> Callable[[bytes], None]:
    def run(data: bytes) -> None:
        text = data.removeprefix(b"\xef\xbb\xbf")
        records = [line for line in text.split(b"\n") if line not in (b"", b"\r")]
        with _file(data, f"a.{kind}") as path:
            rows, bad = _read(path, kind, schema, 4 << 20, **options)
            assert len(rows) + len(bad) == len(records), (len(rows), len(bad), len(records))
            again = _read(path, kind, schema, 256, **options)
        assert (rows, bad) == again, (rows, bad, again)

    return run


def _document(data: bytes) -> None:
    with _file(data, "a.json") as path:
        _read(path, "json", SCHEMA, 4 << 20)


def _quoted(data: bytes) -> None:
    with _file(data, "a.csv") as path:
        _read(path, "csv", SCHEMA, 4 << 20, multiline="true", header="true", delimiter=";")


def _parquet(data: bytes) -> None:
    with _file(data, "a.parquet") as path:
        _read(path, "parquet", SCHEMA, 4 << 20)


def _texts(data: bytes) -> list[str]:
    return data.decode("utf-8", "replace").split("\n")[:20]


def _values(data: bytes) -> None:
    texts = _texts(data)
    for kind in KINDS:
        whole, fits = convert(pa.chunked_array([texts], pa.string()), kind)
        fitting = [True] * len(texts) if fits is None else fits.to_pylist()
        # One of them for each kind: all would take a second.
        place = len(data) % len(texts)
        alone, alone_fits = convert(pa.chunked_array([[texts[place]]], pa.string()), kind)
        value = str(whole.slice(place, 1).combine_chunks())
        assert (str(alone.combine_chunks()), alone_fits is None or alone_fits[0].as_py()) == (value, fitting[place]), (
            kind,
            place,
            texts,
        )
        for text, fit in zip(texts, fitting, strict=True):
            if fit and kind.is_nested and text.strip():
                decode(text.strip().replace("\r", " "))  # what Arrow takes for a value is one


def _json_text(data: bytes) -> None:
    texts: list[str | None] = [*_texts(data)]
    known = [parsed(text) for text in texts]
    if any(text is not None and text.count("[") + text.count("{") > 100 for text in texts):
        known = []
    valid, _ = ask("json_valid", texts)
    assert not known or valid == [good for good, _ in known], texts
    for path in ("$", "$.a", "$.a.b[0]", "$[-1]"):
        for function in ("json_extract", "json_extract_string", "json_array_length"):
            ask(function, texts, path)


def _text(data: bytes) -> None:
    assert survey(np.frombuffer(data, np.uint8)) == slow.surveyed(data)
    ends = np.array([place for place, byte in enumerate(data) if byte == 10], np.int64)
    starts = np.concatenate(([0], ends[:-1] + 1)).astype(np.int64) if len(ends) else ends
    found = enclosed(np.frombuffer(data, np.uint8), starts, ends, ord("{"), ord("}"))
    words = [data[a:b].strip(b" \t\r\n") for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]
    assert found.tolist() == [len(word) > 1 and word[:1] == b"{" and word[-1:] == b"}" for word in words]
    separator = data[:2] or b","
    pieces = [data[:50], b"", data]
    offsets = np.cumsum([0, *map(len, pieces)]).astype(np.int64)
    for n in (1, 2, -1, -2, 1 << 40):
        places, out = nth_pieces(
            offsets, np.frombuffer(b"".join(pieces), np.uint8), np.frombuffer(separator, np.uint8), n
        )
        for place, piece in enumerate(pieces):
            parts = piece.split(separator)
            wanted = parts[n - 1] if 0 < n <= len(parts) else parts[n] if -len(parts) <= n < 0 else b""
            assert bytes(out[places[place] : places[place + 1]]) == wanted, (piece, separator, n)
    form = re.fullmatch(rb"x >= ([0-9]{1,9}) FOR ([0-9]{1,9}) ROWS", data)
    fits, numbers = form_numbers(
        np.array([0, len(data)]),
        np.frombuffer(data, np.uint8),
        np.array([0]),
        np.frombuffer(b"x >=  FOR  ROWS", np.uint8),
        np.array([5, 10, 15]),
    )
    assert fits[0] == (form is not None) and (form is None or numbers[0].tolist() == [int(form[1]), int(form[2])])


def _workflow(data: bytes) -> None:
    for name in ("a.bpmn", "a.json"):
        with _file(data, name) as path, contextlib.suppress(EddylineError):
            read_net(path)


TARGETS: dict[str, Callable[[bytes], None]] = {
    "jsonl": _lines("jsonl", SCHEMA),
    "json": _document,
    "csv": _lines("csv", SCHEMA, header="false"),
    "csv_plain": _lines("csv", PLAIN, header="false"),
    "csv_quoted": _quoted,
    "parquet": _parquet,
    "values": _values,
    "json_text": _json_text,
    "text": _text,
    "workflow": _workflow,
}
