"""Environments of other systems: one that is missing is named, one that cannot be made says why, and the switch goes on
without it."""

import json

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from bench import harness, workloads
from bench.peers import NOTES, RUNNERS, duckdb_batch, eddyline_engine, environments, flink, inside, setup, stripes
from bench.peers import __main__ as switch


def test_a_peer_that_is_not_installed_is_left_out_and_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("EDDYLINE_PEERS", str(tmp_path / "peers"))
    monkeypatch.setenv("EDDYLINE_BENCH_DATA", str(tmp_path / "data"))
    arguments = [
        "--runner",
        "duckdb",
        "bytewax",
        "--workload",
        "W1",
        "--rows",
        "300",
        "--repeats",
        "1",
        "--results",
        str(tmp_path),
    ]
    assert switch.main(arguments) == 0
    assert "bytewax is left out: not installed: make bench-peers-setup" in capsys.readouterr().err
    record = json.loads(next(tmp_path.glob("*.json")).read_text())
    assert [measure["name"] for measure in record["measures"]] == ["duckdb"]
    assert record["absent"] == {"bytewax": "not installed: make bench-peers-setup"}


@pytest.mark.long
def test_a_peer_that_cannot_be_installed_says_why(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("EDDYLINE_PEERS", str(tmp_path / "peers"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setattr(environments, "pins", lambda peer: tmp_path / f"{peer}.txt")
    (tmp_path / "bytewax.txt").write_text("bytewax==0.0.0\n")
    assert setup.main(["bytewax"]) == 1
    assert "bytewax CANNOT RUN HERE: ERROR" in capsys.readouterr().out
    assert environments.absent("bytewax").startswith("it could not be installed: ERROR")
    with pytest.raises(inside.Absent, match="could not be installed"):
        inside.run("bytewax", "bytewax_join", {}, 10)


def test_changed_pins_ask_for_a_new_installation(tmp_path, monkeypatch):
    monkeypatch.setenv("EDDYLINE_PEERS", str(tmp_path))
    place = environments.folder("flink")
    place.mkdir(parents=True)
    (place / "ready").write_text(environments.pins("flink").read_text())
    assert environments.absent("flink") == ""
    (place / "ready").write_text("apache-flink==1.0.0\n")
    assert "changed" in environments.absent("flink")


def test_every_runner_says_what_it_does_not_guarantee_and_every_peer_is_pinned():
    assert set(NOTES) == set(RUNNERS)
    for peer in environments.PEERS:
        assert environments.version(peer)
        assert all("==" in line and "/" not in line for line in environments.pins(peer).read_text().splitlines())


def test_interleaved_files_are_in_time_order_and_hold_every_row_once(tmp_path):
    workload = workloads.make("W2", files=3, rows=1_001, folder=tmp_path)
    folder = stripes.interleaved(workload, 2)
    options = pyarrow.csv.ReadOptions(column_names=["x", "y", "v", "us"])
    parts = [pyarrow.csv.read_csv(file, options)["us"].to_numpy() for file in sorted((folder / "a").glob("*.csv"))]
    assert [len(part) for part in parts] == [501, 500]
    assert all((np.diff(part) >= 0).all() for part in parts)
    whole = pq.read_table(workload.path("a"))["ts"].cast("int64").to_numpy()
    assert np.array_equal(np.sort(np.concatenate(parts)), whole)


def test_eddyline_answers_the_same_from_csv(tmp_path):
    workload = workloads.make("W1", files=2, rows=1_000, folder=tmp_path)
    assert eddyline_engine.run(workload, csv=True).results == duckdb_batch.run(workload).results > 0


def test_flink_ties_every_stream_to_the_first_by_time_and_to_all_by_microseconds(tmp_path):
    text = flink.query(workloads.make("W3", files=1, rows=10, folder=tmp_path))
    assert text.count("BETWEEN a.ts - INTERVAL '20:00.001' MINUTE TO SECOND(3)") == 3
    assert text.count("ABS(") == 6 and text.count("<= 1200000000") == 6
    assert "a.ad = d.ad AND b.bd = d.bd AND c.cd = d.cd" in text


def test_rounds_are_added_to_an_earlier_run_of_the_same_contenders(tmp_path, monkeypatch):
    monkeypatch.setenv("EDDYLINE_BENCH_DATA", str(tmp_path / "data"))
    arguments = [
        "--runner",
        "duckdb",
        "--workload",
        "W1",
        "--rows",
        "300",
        "--repeats",
        "1",
        "--results",
        str(tmp_path),
        "--add",
    ]
    for rounds in (1, 2):
        assert switch.main(arguments) == 0
        record = json.loads(next(tmp_path.glob("*.json")).read_text())
        assert len(record["measures"][0]["samples"]) == rounds
    other = harness.compare({"spark": lambda: None}, warmup=0, repeats=1)
    with pytest.raises(ValueError, match="cannot be added"):
        other.after(record)
