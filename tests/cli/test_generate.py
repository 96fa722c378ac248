"""`eddyline generate`: every kind runs, prints statements that read what it wrote, and refuses nonsense."""

import argparse
import inspect

import pyarrow.parquet as pq
import pytest

from eddyline.cli import generate, generate_options, options
from eddyline.connectors.generators.workflow import OrderTraces
from eddyline.errors import UserError


def command(*arguments):
    parser = argparse.ArgumentParser()
    options.generate(parser.add_subparsers())
    args = parser.parse_args(["generate", *arguments])
    return args.run(args)


@pytest.mark.parametrize(
    ("kind", "streams"),
    [
        ("auction", ["auctions", "bids"]),
        ("sensors", ["temperature", "humidity", "light"]),
        ("clique", list("abcd")),
        ("orders", ["orders"]),
    ],
)
def test_each_kind_writes_and_prints(tmp_path, capsys, kind, streams):
    shape = {"rate": 20, "seconds": 30, "seed": 5, "skew": 0.5, "disorder": 1, "late": 0.01, "burst": 1.5, "files": 2}
    options = [text for name, value in shape.items() for text in (f"--{name}", str(value))]
    assert command(kind, "--out", str(tmp_path), *options) == 0
    printed = capsys.readouterr()
    for stream in streams:
        assert f"CREATE STREAM {stream} (" in printed.out
        assert f"path = '{tmp_path / stream}'" in printed.out and "lateness = '1 seconds'" in printed.out
        assert len(list((tmp_path / stream).iterdir())) == 2
        assert f"{stream}: " in printed.err


def test_own_options_reach_the_generator(tmp_path, capsys):
    command(
        "clique", "--out", str(tmp_path), "--sources", "3", "--dmax", "5", "--last-factor", "100", "--seconds", "100"
    )
    assert pq.read_table(tmp_path / "c").column_names == ["x2", "x3", "ts"]
    assert pq.read_table(tmp_path / "c")["x2"].to_numpy().max() > 5
    assert capsys.readouterr().out.count("CREATE STREAM") == 3


def test_orders_of_20_events(tmp_path, capsys):
    shares = ["--checking", "2", "--handling", "7", "--rejected", "0", "--concurrent", "10", "--seconds", "20"]
    command("orders", "--out", str(tmp_path), *shares)
    rows = pq.read_table(tmp_path / "orders")
    assert rows.group_by("trace_id").aggregate([([], "count_all")])["count_all"].unique().to_pylist() == [20]


@pytest.mark.parametrize("kind", generate_options.KINDS)
def test_whatever_a_generator_takes_is_an_option(kind):
    function, (_, own_options) = getattr(generate.generate, kind), generate_options.KINDS[kind]
    own = [p for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY]
    if kind == "orders":
        own += inspect.signature(OrderTraces).parameters.values()
    assert {p.name: p.default for p in own} == generate.generate.options_of(function)
    assert {p.name for p in own} == own_options.keys()


def test_what_cannot_be_is_refused(tmp_path):
    with pytest.raises(UserError, match="rate"):
        command("sensors", "--out", str(tmp_path), "--rate", "-1")
    with pytest.raises(SystemExit):
        command("weather", "--out", str(tmp_path))
