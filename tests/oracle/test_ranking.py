"""The oracle of first rows and of earlier rows against DuckDB."""

from __future__ import annotations

from random import Random

import duckdb

from tests.oracle.ranking import first, followed, key


def test_numbers_and_earlier_values_are_those_of_duckdb() -> None:
    connection = duckdb.connect()
    for seed in range(30):
        rng = Random(seed)
        rows = [
            (rng.choice((0, 1, None)), rng.choice((0, 1, 2, None)), at // 2, at) for at in range(rng.randint(1, 25))
        ]
        connection.execute("CREATE OR REPLACE TABLE r (k INT, v INT, ts INT, place INT)")
        connection.executemany("INSERT INTO r VALUES (?, ?, ?, ?)", rows)
        most, down, nulls = rng.randint(1, 3), rng.random() < 0.5, rng.random() < 0.5
        order = f"v{' DESC' * down} NULLS {'FIRST' if nulls else 'LAST'}, ts, place"
        numbered = f"SELECT row_number() OVER (PARTITION BY k ORDER BY {order}) AS n, place FROM r QUALIFY n <= {most} ORDER BY place"
        mine = [
            (n, row[3])
            for n, row in first(((row[0], (key(row[1], down, nulls), row[2], row[3]), row) for row in rows), most)
        ]
        assert connection.execute(numbered).fetchall() == sorted(mine, key=lambda one: one[1])
        distance = rng.randint(1, 3)
        window = "OVER (PARTITION BY k ORDER BY ts, place)"
        earlier = f"SELECT lag(v, {distance}, 7) {window}, first_value(v) {window}, last_value(v) {window} FROM r ORDER BY place"
        columns = [
            followed(rows, "lag", True, distance, 7),
            followed(rows, "first_value", True),
            followed(rows, "last_value", True),
        ]
        assert connection.execute(earlier).fetchall() == list(zip(*columns, strict=True))
