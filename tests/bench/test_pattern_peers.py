"""The pattern beside other systems: without them it runs alone, and its matches are those of a self-join."""

import json

import duckdb

from bench.peers import patterns


def test_matches_are_those_of_a_self_join(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("EDDYLINE_BENCH_DATA", str(tmp_path))
    monkeypatch.setenv("EDDYLINE_PEERS", str(tmp_path / "none"))
    assert patterns.main(["--events", "12000", "--repeats", "1", "--results", str(tmp_path)]) == 0
    assert "flink is left out" in capsys.readouterr().err
    record = json.loads((tmp_path / "sequence-12000.json").read_text())
    sides = " JOIN ".join(
        f"(SELECT trace_id, ts AS t{n} FROM o WHERE type = '{kind}') USING (trace_id)"
        for n, kind in enumerate(patterns.TYPES)
    )
    connection = duckdb.connect()
    connection.execute(f"CREATE VIEW o AS SELECT * FROM '{tmp_path}/orders-12000-2/orders/*.parquet'")
    expected = connection.execute(
        f"SELECT count(*) FROM {sides.replace(' USING (trace_id)', '', 1)} WHERE t0 < t1 AND t1 < t2"
    ).fetchone()[0]
    assert record["measures"][0]["samples"][0]["details"]["results"] == expected > 0
