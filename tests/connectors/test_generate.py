"""Generated streams: what they hold, that a seed repeats them, and that sources read them."""

import time

import numpy as np
import pyarrow.parquet as pq
import pytest

from eddyline.connectors.generators import generate
from eddyline.connectors.generators.draws import GeneratorShape
from eddyline.errors import UserError
from tests.pace import slowness

SHAPE = GeneratorShape(rate=50, seconds=60, seed=3)
KINDS = [generate.auction, generate.sensors, generate.clique, generate.orders]


def tables(done):
    return {name: pq.read_table(path) for name, path in done.paths.items()}


@pytest.mark.parametrize("make", KINDS)
def test_a_seed_repeats_every_row_and_another_does_not(tmp_path, make):
    first, again = tables(make(str(tmp_path / "a"), SHAPE)), tables(make(str(tmp_path / "b"), SHAPE))
    other = tables(make(str(tmp_path / "c"), GeneratorShape(rate=50, seconds=60, seed=4)))
    assert all(first[name].equals(again[name]) for name in first)
    assert any(not first[name].equals(other[name]) for name in first)


@pytest.mark.parametrize("make", KINDS)
def test_files_are_split_in_order_and_replace_earlier_ones(tmp_path, make):
    whole = tables(make(str(tmp_path), SHAPE))
    make(str(tmp_path), GeneratorShape(rate=50, seconds=60, seed=3, files=5))
    done = make(str(tmp_path), GeneratorShape(rate=50, seconds=60, seed=3, files=3))
    for name, path in done.paths.items():
        if not path.endswith(".parquet"):
            assert len(list((tmp_path / name).iterdir())) == 3
        assert pq.read_table(path).equals(whole[name])
        assert whole[name].num_rows == done.rows[name]


def test_bids_are_on_open_auctions(tmp_path):
    found = tables(
        generate.auction(str(tmp_path), GeneratorShape(rate=200, seconds=300), open_seconds=30, categories=7)
    )
    auctions, bids = found["auctions"], found["bids"]
    item = bids["item_id"].to_numpy() - 1
    opened, closes = auctions["ts"].to_numpy()[item], auctions["closes"].to_numpy()[item]
    times = bids["ts"].to_numpy()
    assert (opened <= times).all() and (times < closes).mean() > 0.999
    assert (auctions["closes"].to_numpy() > auctions["ts"].to_numpy()).all()
    assert bids.num_rows == 60_000 and auctions.num_rows == 6_000
    assert (
        set(auctions["category"].to_pylist()) == set(found["categories"]["category"].to_pylist())
        and found["categories"].num_rows == 7
    )
    assert 0.05 < np.mean(bids["price"].to_numpy() > 100) < 0.5


def test_sensors_measure_at_their_locations(tmp_path):
    found = tables(generate.sensors(str(tmp_path), SHAPE, locations=5))
    assert list(found) == ["temperature", "humidity", "light"]
    assert {t.column_names[1] for t in found.values()} == {"celsius", "percent", "lux"}
    assert all(set(t["location"].to_pylist()) == set(range(1, 6)) for t in found.values())
    humidity = found["humidity"]["percent"].to_numpy()
    assert humidity.min() >= 0 and humidity.max() <= 100


def test_a_clique_has_one_column_per_pair(tmp_path):
    found = tables(
        generate.clique(str(tmp_path), GeneratorShape(rate=100, seconds=50), sources=4, dmax=20, last_factor=100)
    )
    assert {name: t.column_names[:-1] for name, t in found.items()} == {
        "a": ["x1", "x2", "x3"],
        "b": ["x1", "x4", "x5"],
        "c": ["x2", "x4", "x6"],
        "d": ["x3", "x5", "x6"],
    }
    assert found["a"]["x1"].to_numpy().max() == 20 and found["a"]["x1"].to_numpy().min() == 1
    assert found["d"]["x3"].to_numpy().max() > 1_500
    with pytest.raises(UserError, match="clique of 1"):
        generate.clique(str(tmp_path), SHAPE, sources=1)


def test_orders_have_five_attributes_with_their_domains(tmp_path):
    found = tables(generate.orders(str(tmp_path), SHAPE, values=8))["orders"]
    assert found.column_names == ["trace_id", "type", "customer", "quantity", "price", "item", "region", "ts"]
    assert set(found["price"].to_pylist()) == set(range(1, 9)) and len(set(found["region"].to_pylist())) == 8


def test_disorder_becomes_lateness_in_the_statement(tmp_path):
    done = generate.sensors(str(tmp_path), GeneratorShape(rate=50, seconds=60, disorder=2.5, late=0.02))
    assert "lateness = '2.5 seconds'" in done.statements[0]
    times = tables(done)["light"]["ts"].to_numpy()
    assert (np.diff(times) < np.timedelta64(0)).any()


def test_a_million_rows_take_seconds(tmp_path):
    begin = time.process_time()
    done = generate.auction(str(tmp_path), GeneratorShape(rate=10_000, seconds=100, skew=0.8, disorder=1))
    assert done.rows["bids"] == 1_000_000 and time.process_time() - begin < 20 * slowness()
