"""Sinks other than files, and the sink for all queries."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from eddyline.connectors.results.output import FileSink
from eddyline.connectors.results.sinks import (
    AllSink,
    CallbackSink,
    ConsoleSink,
    DropSink,
    MemorySink,
    ParquetSink,
    open_sink,
)
from eddyline.errors import BindingProblem, SourceProblem

TIME = ("_ts", pa.timestamp("us"))


def results(**columns):
    count = len(next(iter(columns.values())))
    return pa.table({**columns, "_ts": pa.array(range(count), pa.timestamp("us"))})


def test_memory_keeps_and_takes_back():
    sink = MemorySink()
    sink.open(results(a=[1]).schema)
    for epoch in range(3):
        sink.write(epoch, results(a=[epoch]))
    sink.truncate_after(1)
    assert sink.table()["a"].to_pylist() == [0, 1] and len(sink.tables) == 2


def test_a_callback_gets_tables_and_drop_counts():
    seen, drop = [], DropSink()
    for sink in (CallbackSink(seen.append), drop):
        sink.open(results(a=[1]).schema)
        sink.write(0, results(a=[1, 2]))
        sink.write(1, results(a=[1]).slice(1))
        sink.flush(1)
        sink.truncate_after(0)
        sink.close()
    assert [t.num_rows for t in seen] == [2] and drop.count == 2


def test_the_console_shows_some_rows_and_says_how_many_more():
    text = io.StringIO()
    sink = ConsoleSink("hits", rows=2, console=Console(file=text, width=80))
    sink.open(results(a=[1]).schema)
    sink.write(0, results(a=[17, None, 333]))
    shown = text.getvalue()
    assert "hits" in shown and "17" in shown and "333" not in shown and "1 more rows" in shown


def test_statements_make_sinks(tmp_path):
    assert isinstance(open_sink({"format": "csv", "path": str(tmp_path)}, "s"), FileSink)
    assert isinstance(open_sink({"format": "console"}, "s"), ConsoleSink)
    assert isinstance(open_sink({"format": "drop"}, "s"), DropSink)
    assert isinstance(open_sink({"format": "memory"}, "s"), MemorySink)
    with pytest.raises(SourceProblem, match="delta, which Spark writes"):
        open_sink({"format": "delta", "path": "x"}, "s")
    with pytest.raises(SourceProblem, match="unknown format"):
        open_sink({"format": "xls", "path": "x"}, "s")
    with pytest.raises(SourceProblem, match="has no path"):
        open_sink({}, "s")


def test_the_union_has_columns_by_name_and_refuses_two_types():
    one = pa.schema([("a", pa.int64()), ("b", pa.string()), TIME])
    two = pa.schema([("b", pa.string()), ("c", pa.float64()), ("_op", pa.string()), TIME])
    inner = MemorySink()
    whole = AllSink(inner)
    whole.port("q1").open(one)
    whole.port("q2").open(two)
    assert inner.schema.names == ["_query", "a", "b", "c", "_op", "_ts"]
    with pytest.raises(BindingProblem, match="column a has two types") as refused:
        whole.port("q3").open(pa.schema([("a", pa.string()), TIME]))
    assert "q1" in refused.value.detail and "q3" in refused.value.detail


def test_all_queries_share_one_folder(tmp_path):
    whole = AllSink(ParquetSink(str(tmp_path)))
    first, second = whole.port("q1"), whole.port("q2")
    first.open(results(a=[1]).schema)
    second.open(results(b=["x"]).schema)
    first.write(0, results(a=[1, 2]))
    second.write(0, results(b=["x"]))
    first.flush(0)
    third = whole.port("q3")  # a query that comes later, with a column of its own
    third.open(results(c=[True]).schema)
    third.write(1, results(c=[True]))
    for port in (first, second, third):
        port.close()
    rows = [r for f in sorted(tmp_path.iterdir()) for r in pq.read_table(f).to_pylist()]
    assert [(r["_query"], r["a"], r["b"], r.get("c")) for r in rows] == [
        ("q1", 1, None, None),
        ("q1", 2, None, None),
        ("q2", None, "x", None),
        ("q3", None, None, True),
    ]
