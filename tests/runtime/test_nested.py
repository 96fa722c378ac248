"""STRUCT and ARRAY columns from files of every format, through queries, into files; DuckDB reads the same files."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline import Session
from eddyline.settings import Settings

COLUMNS = """id BIGINT, place STRUCT(city STRING, at STRUCT(lat DOUBLE, day DATE)), xs BIGINT[],
             items STRUCT(sku STRING, qty INT, price DECIMAL(10, 2))[], ts TIMESTAMP"""
ARROW = pa.schema(
    [
        ("id", pa.int64()),
        ("place", pa.struct([("city", pa.string()), ("at", pa.struct([("lat", pa.float64()), ("day", pa.date32())]))])),
        ("xs", pa.list_(pa.int64())),
        ("items", pa.list_(pa.struct([("sku", pa.string()), ("qty", pa.int32()), ("price", pa.decimal128(10, 2))]))),
        ("ts", pa.timestamp("us")),
    ]
)


def value(random: Random, found: Any) -> Any:
    return None if random.random() < 0.15 else found


def rows(count: int, seed: int) -> list[dict[str, Any]]:
    random = Random(seed)
    made = []
    for number in range(count):
        at = value(random, {"lat": value(random, number / 4), "day": value(random, f"2024-01-{1 + number % 28:02d}")})
        items = [
            value(
                random,
                {
                    "sku": value(random, f"s{random.randrange(5)}"),
                    "qty": value(random, k),
                    "price": value(random, f"{k}.25"),
                },
            )
            for k in range(random.randrange(4))
        ]
        made.append(
            {
                "id": number,
                "place": value(random, {"city": value(random, random.choice("abc")), "at": at}),
                "xs": value(random, [value(random, random.randrange(9)) for _ in range(random.randrange(4))]),
                "items": value(random, items),
                "ts": f"2024-01-01 00:{number // 60:02d}:{number % 60:02d}",
            }
        )
    return made


def table(found: list[dict[str, Any]]) -> pa.Table:
    with Session() as session:
        session.execute(f"CREATE STREAM s ({COLUMNS}) WITH (time = 'ts')")
        query = session.query("q", "SELECT * FROM s")
        session.push("s", found)
        session.run(once=True)
        assert not session.dead_letters("s").num_rows
        return query.table().drop_columns(["_ts"])


def written(folder: Path, form: str, found: list[dict[str, Any]]) -> str:
    path = folder / f"s.{form}"
    if form == "parquet":
        parquet.write_table(table(found), path)
    elif form == "csv":
        # Nested values of a csv file are JSON text.
        def cell(name: str, found: Any) -> str:
            text = "" if found is None else found if name == "ts" else json.dumps(found)
            return '"' + text.replace('"', '""') + '"' if text else ""

        lines = [",".join(cell(name, row[name]) for name in ARROW.names) for row in found]
        path.write_text("\n".join([",".join(ARROW.names), *lines, ""]))
    else:
        path.write_text("\n".join(map(json.dumps, found)) + "\n")
    return str(path)


QUERIES = {
    "fields": (
        "SELECT id, place, place.city, s.place.at.lat AS lat, place.at.day AS day FROM s WHERE place.at.lat > 3 OR place.city = 'b'"
    ),
    "elements": "SELECT id, xs, xs[1] AS a, xs[-1] AS b, xs[id % 3] AS c, items[2].sku AS sku, items[1].price AS p FROM s",
    "choice": "SELECT id, coalesce(xs, items_of.xs) AS xs, CASE WHEN id % 2 = 0 THEN place END AS place FROM s",
    "unnest": "SELECT id, i.sku, i.qty, i.price, i FROM s, UNNEST(s.items) AS t(i) WHERE i.qty IS NULL OR i.qty > 0",
    "two": "SELECT id, x, i.sku AS sku FROM s, UNNEST(xs) AS t(x), UNNEST(items) AS u(i)",
}


@pytest.mark.parametrize("form", ["parquet", "jsonl", "csv"])
def test_the_answers_are_those_of_duckdb(tmp_path: Path, form: str) -> None:
    found = rows(150, 3)
    path = written(tmp_path, form, found)
    parquet.write_table(table(found), tmp_path / "duck.parquet")
    connection = duckdb.connect()
    connection.execute(f"CREATE VIEW s AS SELECT * FROM '{tmp_path}/duck.parquet'")
    with Session(Settings(epoch_rows=40)) as session:
        session.execute(f"CREATE STREAM s ({COLUMNS}) WITH (time = 'ts', format = '{form}', path = '{path}')")
        texts = {name: text.replace("coalesce(xs, items_of.xs)", "coalesce(xs, xs)") for name, text in QUERIES.items()}
        queries = {name: session.query(name, text) for name, text in texts.items()}
        session.run(once=True)
        assert not session.dead_letters("s").num_rows
        for name, query in queries.items():
            ours = query.table().drop_columns(["_ts"]).to_pylist()
            theirs = connection.sql(texts[name]).to_arrow_table().to_pylist()
            assert sorted(map(str, ours)) == sorted(map(str, theirs)) and ours, name


def test_nested_values_pass_through_joins_and_checkpoints(tmp_path: Path) -> None:
    found = rows(120, 5)
    whole = {row["id"]: row for row in table(found).to_pylist()}
    joined: list[dict[str, Any]] = []
    for first in (0, 60):
        with Session(Settings(epoch_rows=25), checkpoint=str(tmp_path / "ck")) as session:
            session.execute(f"CREATE STREAM s ({COLUMNS}) WITH (time = 'ts')")
            query = session.query(
                "q",
                """SELECT a.id AS id, a.place AS place, a.items AS items, b.id AS other
                   FROM s [RANGE 5 SECONDS] a, s [RANGE 5 SECONDS] b WHERE a.id = b.id - 3""",
            )
            session.push("s", found[first : first + 60])
            session.run(once=True)
            joined += query.table().to_pylist()
    assert [row["other"] - row["id"] for row in joined] == [3] * 117
    assert all(
        row["place"] == whole[row["id"]]["place"] and row["items"] == whole[row["id"]]["items"] for row in joined
    )


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_results_are_read_back(tmp_path: Path, form: str) -> None:
    found = rows(40, 8)
    with Session() as session:
        session.execute(f"CREATE STREAM s ({COLUMNS}) WITH (time = 'ts')")
        session.execute(
            f"CREATE QUERY q AS SELECT * FROM s; CREATE SINK k FOR q WITH (format = '{form}', path = '{tmp_path}/out')"
        )
        session.push("s", found)
        session.run(once=True)
    with Session() as session:
        session.execute(f"CREATE STREAM s ({COLUMNS}) WITH (time = 'ts', format = '{form}', path = '{tmp_path}/out')")
        query = session.query("q", "SELECT * FROM s")
        session.run(once=True)
        assert not session.dead_letters("s").num_rows
        assert query.table().drop_columns(["_ts"]).to_pylist() == table(found).to_pylist()


def test_a_value_that_does_not_fit_makes_its_row_bad(tmp_path: Path) -> None:
    lines = [
        {"id": 1, "xs": [1, 2], "ts": "2024-01-01 00:00:01"},
        {"id": 2, "xs": [1, "x"], "ts": "2024-01-01 00:00:02"},
        {"id": 3, "xs": {"a": 1}, "ts": "2024-01-01 00:00:03"},
        {"id": 4, "items": [{"sku": "a", "qty": 1.5}], "ts": "2024-01-01 00:00:04"},
        {"id": 5, "items": [{"sku": "a", "colour": "red"}], "ts": "2024-01-01 00:00:05"},
        {"id": 6, "place": {"at": {"day": "tomorrow"}}, "ts": "2024-01-01 00:00:06"},
    ]
    (tmp_path / "s.jsonl").write_text(
        "\n".join(map(json.dumps, lines)) + "\n" + '{"id": 7, "xs": ' + "[" * 300 + "]" * 300 + "}\n"
    )
    with Session() as session:
        session.execute(
            f"CREATE STREAM s ({COLUMNS}) WITH (time = 'ts', format = 'jsonl', path = '{tmp_path}/s.jsonl')"
        )
        query = session.query("q", "SELECT id, items FROM s")
        session.run(once=True)
        assert query.take().column("id").to_pylist() == [1, 5]
        assert query.table().num_rows == 0 and session.dead_letters("s").num_rows == 5


def test_arrow_types_of_columns_and_frames() -> None:
    with Session() as session:
        session.stream("s", ARROW, time="ts")
        assert (
            str(session.job.catalog.streams["s"].schema.columns[3].type)
            == "STRUCT(sku STRING, qty INT, price DECIMAL(10, 2))[]"
        )
        query = session.query("q", "SELECT COUNT(items) AS n, COUNT(*) AS a FROM s")
        session.push("s", table(rows(30, 2)))
        session.run(once=True)
        last = query.table().to_pylist()[-1]
        assert (last["n"], last["a"]) == (sum(row["items"] is not None for row in rows(30, 2)), 30)


def test_arrays_of_a_static_table_are_taken_apart(tmp_path: Path) -> None:
    """Joins find the elements, also of arrays within arrays, through derived streams and on shards; DuckDB has the same
    rows."""
    held = {
        "shop": [1, 2, 3, 4],
        "items": [[("a", 1), ("b", None), None], [("a", 5)], [], None],
        "xss": [[[1, 2], None], [[4]], [], None],
    }
    kinds = [pa.int64(), pa.list_(pa.struct([("sku", pa.string()), ("n", pa.int64())])), pa.list_(pa.list_(pa.int64()))]
    parquet.write_table(
        pa.table({n: pa.array(v, k) for (n, v), k in zip(held.items(), kinds, strict=True)}), tmp_path / "shops.parquet"
    )
    declared = f"""
        CREATE STREAM o (sku STRING, v BIGINT, ts TIMESTAMP) WITH (time = 'ts');
        CREATE TABLE shops (shop BIGINT, items STRUCT(sku STRING, n BIGINT)[], xss BIGINT[][])
          WITH (format = 'parquet', path = '{tmp_path}/shops.parquet');
        CREATE STREAM offers AS SELECT o.v, i.n FROM o, shops t, UNNEST(t.items) AS i WHERE i.sku = o.sku;
        CREATE QUERY found AS SELECT o.v, t.shop, i.n FROM o, shops t, UNNEST(t.items) AS i WHERE i.sku = o.sku;
        CREATE QUERY inner_ones AS SELECT o.v, t.shop, y FROM o, shops t, UNNEST(t.xss) AS x, UNNEST(x) AS y WHERE o.v = t.shop;
        CREATE QUERY counted AS SELECT n, count(*) AS c, window_end FROM offers GROUP BY TUMBLE(_ts, '1 minute'), n;
    """
    brought = [{"sku": "abzab"[k], "v": k + 1, "ts": f"2024-01-01 00:00:0{k}"} for k in range(5)]
    brought.append({"sku": "z", "v": 9, "ts": "2024-01-01 00:02:00"})
    with Session() as session:
        session.execute(declared)
        session.push("o", brought)
        session.run()
        answers = {
            name: sorted(map(str, (tuple(r.values())[:-1] for r in q.table().to_pylist())))
            for name, q in session.queries.items()
        }
        session.execute(
            "DROP QUERY found; DROP QUERY inner_ones; DROP QUERY counted; DROP STREAM offers; DROP TABLE shops"
        )
        assert not session.pipeline.queries and not [name for name in session.pipeline.tables if name.startswith("_")]
    duck = duckdb.connect()
    duck.execute(
        "CREATE TABLE o AS SELECT * FROM (VALUES ('a', 1), ('b', 2), ('z', 3), ('a', 4), ('b', 5), ('z', 9)) t(sku, v)"
    )
    duck.execute(f"CREATE VIEW shops AS SELECT * FROM '{tmp_path}/shops.parquet'")
    offers = "SELECT o.v, t.shop, i.n FROM o, (SELECT shop, unnest(items) AS i FROM shops) t WHERE i.sku = o.sku"
    twice = "SELECT shop, unnest(x) AS y FROM (SELECT shop, unnest(xss) AS x FROM shops)"
    assert answers["found"] == sorted(map(str, duck.execute(offers).fetchall()))
    assert answers["inner_ones"] == sorted(
        map(str, duck.execute(f"SELECT o.v, shop, y FROM o, ({twice}) WHERE v = shop").fetchall())
    )
    counts = duck.execute(f"SELECT n, count(*) FROM ({offers}) GROUP BY n").fetchall()
    assert [text.split(", datetime")[0] + ")" for text in answers["counted"]] == sorted(map(str, counts))
