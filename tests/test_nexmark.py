"""NEXMark: the answer of every query equals a batch computation in DuckDB over the same files."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from eddyline import Session
from eddyline.connectors.generators.draws import GeneratorShape
from eddyline.connectors.generators.generate import nexmark

QUERIES = sorted((Path(__file__).resolve().parents[1] / "examples" / "nexmark").glob("q*.sql"))
#: By query, what DuckDB computes over whole files.
EXPECTED = {
    part.split("\n", 1)[0]: part.split("\n", 1)[1].strip().rstrip(";")
    for part in (Path(__file__).parent / "oracle" / "nexmark.sql").read_text().split("\n-- ")[1:]
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nexmark")
    made = nexmark(str(folder / "data"), GeneratorShape(rate=500, seconds=60, files=3), extra=20)
    assert made.rows["bid"] == 46 * made.rows["person"] and made.rows["auction"] == 3 * made.rows["person"]
    return folder


def rounded(row: tuple[object, ...]) -> tuple[object, ...]:
    return tuple(float(f"{value:.9g}") if isinstance(value, float) else value for value in row)


def final(table: pa.Table, keys: int) -> list[tuple[object, ...]]:
    """Rows without `_op` and `_ts`; of changes the last one of each group, whose columns come first or second."""
    rows = [tuple(row[name] for name in table.column_names if not name.startswith("_")) for row in table.to_pylist()]
    return list({row[:keys]: row for row in rows}.values()) if keys else rows


#: Queries whose changes take back whole rows.
RANKED = ("q9", "q18", "q19")


def standing(table: pa.Table) -> Counter:
    """What the changes leave."""
    found: Counter = Counter()
    for row in table.to_pylist():
        found[rounded(tuple(row[name] for name in table.column_names if not name.startswith("_")))] += (
            1 if row["_op"] == "+" else -1
        )
    assert min(found.values()) >= 0 and table.column("_op").to_pylist().count("-") > 0
    return +found


@pytest.mark.parametrize("path", QUERIES, ids=lambda path: path.stem)
def test_answers_are_those_of_duckdb(path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(data)
    name = path.stem
    with Session() as session:
        session.execute(path.read_text())
        session.set("epoch_rows", 2_000)
        session.run()
        check(name, session.queries[name].table(), data)


def check(name: str, table: pa.Table, data: Path, *, open_end: bool = False) -> None:
    """The results of a query are those of the batch computation over the same files.

    Args:
        open_end: The streams have not ended with the run: windows that ended later have no results.
    """
    connection = duckdb.connect()
    for source in ("person", "auction", "bid"):
        connection.execute(
            f"CREATE VIEW {source} AS SELECT * FROM read_parquet('{data}/data/{source}/*.parquet', filename = true, file_row_number = true)"
        )
        # Windows that end at or before this instant have results.
        end = f"(SELECT max(ts) + INTERVAL 1 MICROSECOND FROM {source})" if open_end else "TIMESTAMP 'infinity'"
        connection.execute(f"SET VARIABLE end_of_{source} = {end}")
    both = "SELECT ts FROM auction UNION ALL SELECT ts FROM bid"
    connection.execute(f"SET VARIABLE newest = (SELECT max(ts) FROM ({both}))")
    connection.execute(f"CREATE VIEW side AS SELECT * FROM '{data}/data/side.parquet'")
    expected = Counter(map(rounded, connection.execute(EXPECTED[name]).fetchall()))
    found = (
        standing(table)
        if name in RANKED
        else Counter(map(rounded, final(table, {"q4": 1, "q15": 1, "q16": 2, "q17": 2}.get(name, 0))))
    )
    assert found == expected and expected


def test_every_example_is_compared() -> None:
    assert sorted(EXPECTED) == sorted(path.stem for path in QUERIES)


def test_the_same_seed_gives_the_same_rows(tmp_path: Path) -> None:
    shape = GeneratorShape(rate=100, seconds=10)
    for side in "ab":
        nexmark(str(tmp_path / side), shape)
    for folder, _, files in os.walk(tmp_path / "a"):
        for file in files:
            one = Path(folder) / file
            assert one.read_bytes() == (tmp_path / "b" / one.relative_to(tmp_path / "a")).read_bytes()
