"""The workloads are what they say: rates, ranges, order, the same on every machine."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from bench import workloads


def columns(workload, stream):
    return pq.read_table(workload.path(stream))


@pytest.mark.parametrize("name", list(workloads.SHAPES))
def test_streams_have_the_stated_rate_values_and_order(name, tmp_path):
    workload = workloads.make(name, files=3, rows=6_000, folder=tmp_path)
    assert workload.rows_in == 6_000 * len(workload.streams)
    for stream in workload.streams:
        table = columns(workload, stream)
        assert table.num_rows == 6_000
        times = table["ts"].cast("int64").to_numpy()
        assert np.all(np.diff(times) >= 0)
        length = (times[-1] - workloads.ORIGIN) / 1e6
        assert length == pytest.approx(6_000 / workload.shape.rows_per_second, rel=0.01)
        for column, largest in workload.shape.streams[stream].items():
            values = table[column].to_numpy()
            assert values.min() >= 1
            assert values.max() <= largest
            assert values.mean() == pytest.approx((1 + largest) / 2, rel=0.05)


def test_the_same_seed_gives_the_same_rows_and_files_only_cut_them(tmp_path):
    whole = workloads.make("W1", files=1, rows=1_000, folder=tmp_path / "one")
    cut = workloads.make("W1", files=7, rows=1_000, folder=tmp_path / "other")
    assert columns(whole, "a").equals(columns(cut, "a"))
    assert not columns(whole, "a").equals(columns(whole, "b"))
    assert len(list(cut.path("a").iterdir())) == 7


def test_a_factor_makes_streams_longer_not_faster(tmp_path):
    once, four = (workloads.make("W1", factor, rows=2_000, folder=tmp_path) for factor in (1, 4))
    assert columns(four, "a").num_rows == 8_000
    last_once, last_four = (
        columns(one, "a")["ts"].cast("int64").to_numpy()[-1] - workloads.ORIGIN for one in (once, four)
    )
    assert last_four / last_once == pytest.approx(4, rel=0.01)


def test_modification_times_follow_names(tmp_path):
    files = sorted(workloads.make("W3", files=5, rows=100, folder=tmp_path).path("d").iterdir())
    times = [file.stat().st_mtime for file in files]
    assert times == sorted(set(times))


def test_files_are_made_once(tmp_path):
    first = workloads.make("W2", rows=100, folder=tmp_path)
    stamp = first.path("c").stat().st_mtime_ns
    assert workloads.make("W2", rows=100, folder=tmp_path).path("c").stat().st_mtime_ns == stamp
    assert [entry.name for entry in tmp_path.iterdir()] == [first.folder.name]


def test_the_job_names_each_pair_of_the_clique_once(tmp_path):
    text = workloads.make("W3", rows=100, folder=tmp_path).job("epoch_rows = 100", files_per_batch=2)
    assert text.count("CREATE STREAM") == 4
    assert text.count("files_per_batch=2") == 4
    assert text.count("[RANGE 1200 SECONDS]") == 4
    assert [
        part
        for part in ("a.ab = b.ab", "a.ac = c.ac", "a.ad = d.ad", "b.bc = c.bc", "b.bd = d.bd", "c.cd = d.cd")
        if part not in text
    ] == []
    assert "SET epoch_rows = 100;" in text
