"""Results of several pipelines in one order: that of their newest rows, not that of the pipelines."""

from __future__ import annotations

import pyarrow as pa
import pytest

from eddyline.language import bind_script
from eddyline.operators.stream.intake import event_times
from eddyline.runtime.engine.epoch import Arrival, Epoch
from eddyline.runtime.engine.newest import PLACE, NewestPlaces, merged
from eddyline.runtime.engine.pipeline import Pipeline

COLUMNS = "(k BIGINT, s VARCHAR, ts TIMESTAMP)"
QUERIES = """
    CREATE QUERY all_rows AS SELECT k, s FROM a;
    CREATE QUERY pairs AS SELECT a.k AS ak, b.k AS bk FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.s = b.s;
"""


def table(rows: list[tuple[int, str, int]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [[], [], []]
    return pa.table(
        {
            "k": pa.array(columns[0], pa.int64()),
            "s": pa.array(columns[1], pa.string()),
            "ts": pa.array(columns[2], pa.timestamp("us")),
        }
    )


def run(
    script: str, epochs: list[dict[str, list[tuple[int, str, int]]]], parts: int
) -> dict[str, list[tuple[object, ...]]]:
    """Rows go to parts by their `s`, so pairs meet; every part gets the number of all rows and the places of its
    own."""
    job = bind_script(script)
    pipelines = [Pipeline(job.streams, job.settings) for _ in range(parts)]
    for pipeline in pipelines:
        pipeline.handout.places = NewestPlaces(job.streams) if parts > 1 else None
        for query in job.queries:
            pipeline.add_query(query)
    found: dict[str, list[tuple[object, ...]]] = {query.name: [] for query in job.queries}
    for epoch in [*epochs, None]:
        made: dict[str, list[pa.Table]] = {query.name: [] for query in job.queries}
        for number, pipeline in enumerate(pipelines):
            arrivals = {}
            for name, rows in (epoch or {}).items():
                mine = [at for at, row in enumerate(rows) if sum(row[1].encode()) % parts == number]
                newest = int(event_times(table(rows), "ts").max())
                arrivals[name] = Arrival(
                    table([rows[at] for at in mine]), newest=newest, total=len(rows), places=pa.array(mine).to_numpy()
                )
            for name, tables in pipeline.step(Epoch(arrivals, closing=epoch is None)).results.items():
                made[name] += [pa.concat_tables(tables)] if tables else []
        for name, pieces in made.items():
            if pieces:
                whole = merged(pieces)
                assert PLACE not in whole.column_names
                found[name] += [tuple(row.values()) for row in whole.to_pylist()]
    return found


# All at two instants; the parts get them alternately.
EPOCHS = [
    {
        "a": [(1, "d", 5), (2, "a", 5), (3, "c", 5), (4, "b", 5)],
        "b": [(9, "b", 5), (8, "a", 5), (7, "d", 5), (6, "c", 5)],
    },
    {"a": [(5, "b", 5), (6, "a", 5), (7, "c", 7)], "b": [(5, "c", 7), (4, "a", 7), (3, "b", 7), (2, "a", 7)]},
]


@pytest.mark.parametrize("sequence", ["", ", sequence='s'", ", sequence='k'"])
@pytest.mark.parametrize("parts", [2, 3])
def test_equal_times_come_in_the_order_of_their_newest_rows(parts: int, sequence: str) -> None:
    declared = (
        f"CREATE STREAM a {COLUMNS} WITH (time='ts'{sequence}); CREATE STREAM b {COLUMNS} WITH (time='ts'{sequence});"
    )
    one, several = run(declared + QUERIES, EPOCHS, 1), run(declared + QUERIES, EPOCHS, parts)
    assert len(one["all_rows"]) == 7 and len(one["pairs"]) >= 12
    assert several["all_rows"] == one["all_rows"]
    # Among the results of one newest row the order is free; here every b meets its a rows oldest first.
    assert several["pairs"] == one["pairs"]


def test_a_single_piece_is_only_stripped() -> None:
    piece = pa.table({"v": [1, 2], "_ts": pa.array([1, 1], pa.timestamp("us")), PLACE: [7, 3]})
    assert merged([piece]).to_pydict()["v"] == [1, 2]


def test_pieces_without_places_keep_their_order() -> None:
    pieces = [pa.table({"v": [v, v + 1], "_ts": pa.array([1, 2], pa.timestamp("us"))}) for v in (10, 20)]
    assert merged(pieces).to_pydict()["v"] == [10, 20, 11, 21]
