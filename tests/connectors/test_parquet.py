"""Parquet files in stretches, from any row on."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eddyline.connectors.files.blocks import FileReading
from eddyline.connectors.files.listing import DataFile
from eddyline.connectors.formats.parquet import read_parquet
from eddyline.model.datatypes import BIGINT, DOUBLE, STRING, decimal
from eddyline.model.schema import Column, Schema
from eddyline.tuning import InputTuning

SCHEMA = Schema((Column("k", BIGINT), Column("v", DOUBLE), Column("s", STRING)))


def write(path, count=50, group=8, **changes):
    table = {
        "k": list(range(count)),
        "v": [i / 2 for i in range(count)],
        "s": [str(i) for i in range(count)],
        **changes,
    }
    pq.write_table(pa.table(table), path, row_group_size=group)
    return DataFile(path.name, str(path))


@pytest.mark.parametrize("first", [0, 1, 7, 8, 9, 49, 50, 60])
def test_from_any_row_on(tmp_path, first):
    blocks = list(
        read_parquet(FileReading(write(tmp_path / "a.parquet"), SCHEMA, first), tuning=InputTuning(parquet_rows=5))
    )
    assert [k for b in blocks for k in b.rows["k"].to_pylist()] == list(range(first, 50))
    assert all(b.first == b.rows["k"][0].as_py() for b in blocks)


def test_columns_nobody_needs_are_not_decoded(tmp_path):
    file = write(tmp_path / "a.parquet")
    assert next(read_parquet(FileReading(file, SCHEMA, columns=frozenset({"v"})))).rows.column_names == ["v"]


def test_a_column_that_could_be_wrong_is_decoded_anyway(tmp_path):
    file = write(tmp_path / "a.parquet", k=[str(i) for i in range(50)])
    assert next(read_parquet(FileReading(file, SCHEMA, columns=frozenset({"v"})))).rows.column_names == ["k", "v", "s"]


def test_a_file_damaged_in_the_middle_gives_its_rows_and_one_bad_one(tmp_path):
    path = tmp_path / "a.parquet"
    file = write(path, count=4000, group=1000, s=["x" * 50 + str(i) for i in range(4000)])
    place = pq.read_metadata(path).row_group(2).column(2).data_page_offset
    with open(path, "r+b") as damaged:
        damaged.seek(place)
        damaged.write(b"\xff" * 200)
    blocks = list(read_parquet(FileReading(file, SCHEMA)))
    good = [k for b in blocks if b.rows is not None for k in b.rows["k"].to_pylist()]
    assert good == list(range(len(good)))
    assert blocks[-1].last and blocks[-1].bad["_reason"][0].as_py().startswith("bad: a.parquet cannot be read")


def test_decimals_come_as_they_are(tmp_path):
    kind = decimal(12, 3)
    pq.write_table(pa.table({"d": pa.array(["1.250", None]).cast(kind.arrow)}), tmp_path / "a.parquet")
    file = DataFile("a.parquet", str(tmp_path / "a.parquet"))
    block = next(read_parquet(FileReading(file, Schema((Column("d", kind),)))))
    assert block.rows["d"].type == kind.arrow
