"""CREATE STREAM, TABLE and SINK."""

from __future__ import annotations

from eddyline.language import bind_script
from tests.language.world import world


def test_a_stream_with_everything() -> None:
    job = bind_script("""
        CREATE STREAM bids (Item BIGINT, n BIGINT, Ts TIMESTAMP)
        WITH (TIME = 'ts', lateness = '5 seconds', idle = '1 minute', sequence = 'N', format = 'csv', path = 'x', header = false,
              rate = 1000, distinct_item = 50, files_per_batch = 2)
    """)
    (stream,) = job.streams
    assert (stream.time, stream.lateness, stream.idle, stream.sequence) == ("Ts", 5_000_000, 60_000_000, "n")
    assert stream.options == {
        "format": "csv", "path": "x", "header": "false", "rate": "1000", "distinct_Item": "50", "files_per_batch": "2",
    }  # fmt: skip


def test_streams_have_places_in_the_catalog() -> None:
    assert [(s.name, s.position, s.lateness) for s in world().streams] == [("bids", 0, 0), ("asks", 1, 5_000_000)]


def test_a_table_keeps_its_options() -> None:
    (table,) = world().tables
    assert (table.name, table.schema.names, table.options) == (
        "items",
        ("item", "title"),
        {"format": "parquet", "path": "items.parquet"},
    )


def test_sinks_for_one_and_for_all() -> None:
    job = bind_script("CREATE STREAM s (ts TIMESTAMP) WITH (time = 'ts'); CREATE QUERY Q AS SELECT ts FROM s;"
                      "CREATE SINK a FOR q WITH (path = 'x'); CREATE SINK b FOR ALL WITH (format = 'csv', path = 'y')")  # fmt: skip
    assert [(s.name, s.query, dict(s.options)) for s in job.sinks] == [
        ("a", "Q", {"path": "x"}),
        ("b", None, {"format": "csv", "path": "y"}),
    ]
