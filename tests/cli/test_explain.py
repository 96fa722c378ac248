"""`eddyline explain`: plans of every query, and what the rules changed."""

from pathlib import Path

import pytest

from eddyline.cli.__main__ import main

JOB = """
CREATE STREAM bids (item BIGINT, price DOUBLE, ts TIMESTAMP) WITH (format = 'parquet', path = 'nowhere', time = 'ts');
CREATE STREAM asks (item BIGINT, price DOUBLE, ts TIMESTAMP) WITH (format = 'parquet', path = 'nowhere', time = 'ts');
CREATE QUERY dear AS SELECT item FROM bids WHERE price > 10.0 * 10 AND TRUE;
CREATE QUERY pairs WITH (plan = '(b a)') AS
  SELECT a.item FROM asks [RANGE 1 MINUTE] a, bids [RANGE 1 MINUTE] b WHERE a.item = b.item AND b.item = 7;
EXPLAIN SELECT price FROM asks;
EXPLAIN dear;
"""


def job(folder: Path, text: str = JOB) -> str:
    path = folder / "job.sql"
    path.write_text(text)
    return str(path)


def test_plans_after_the_rules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", job(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert printed.split("\n\n")[:3] == [
        "query: dear\ntree: bids\n  bids: bids [UNBOUNDED] where bids.price > 100.0\nselect: bids.item AS item\nprobe: hash",
        "query: pairs\ntree: (b a)\n"
        "  a: asks [RANGE 1 MINUTE] where a.item = 7\n  b: bids [RANGE 1 MINUTE] where b.item = 7\n"
        "join: a.item = b.item\nselect: a.item AS item\nprobe: hash",
        "query: select\ntree: asks\n  asks: asks [UNBOUNDED]\nselect: asks.price AS price\nprobe: hash",
    ]
    assert "rule " not in printed and printed.count("query: dear") == 1


def test_rules_that_changed_something(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", job(tmp_path), "--rules"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(
        "rule fold_constants on dear:\n  - where: bids.price > (10.0 * 10.0)\n  + where: bids.price > 100.0\n"
        "rule simplify_conditions on dear:\n  - where: TRUE\nquery: dear\n"
    )
    assert "rule spread_equalities on pairs:\n  + where: a.item = 7\nquery: pairs\n" in printed
    assert "nothing to do" not in printed


def test_a_tree_that_cannot_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", job(tmp_path, JOB.replace("(b a)", "(b z)"))]) == 2
    assert "the plan names z, which is not in FROM" in capsys.readouterr().err


def test_a_missing_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(tmp_path / "none.sql")]) == 2
    assert "there is no job file" in capsys.readouterr().err


def test_how_rows_find_shards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", job(tmp_path), "--shards", "4"]) == 0
    printed = capsys.readouterr().out
    assert "shards: 4 of 4\n  attribute {a.item, b.item}  share 4\n  asks a: replication 1, 1 rows/s" in printed
    assert "expected rows per shard: 0.5/s" in printed and printed.count("shards: ") == 3
    assert main(["explain", job(tmp_path, "SET shards = 3;" + JOB)]) == 0
    assert "share 3" in capsys.readouterr().out
    assert main(["explain", job(tmp_path), "--shards", "0"]) == 2


def test_templates_and_streams_of_requests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        JOB.partition("CREATE QUERY")[0]
        + """
    CREATE TEMPLATE t AS SELECT item, COUNT(*) AS n FROM bids [RANGE 1 HOUR] GROUP BY item;
    CREATE REQUESTS asking (id BIGINT, item BIGINT, ts TIMESTAMP) FOR t WITH (time = 'ts');"""
    )
    assert main(["explain", job(tmp_path, text), "--rules"]) == 0
    first, second, _ = capsys.readouterr().out.split("\n\n")
    assert first.startswith("template: t\nstream: bids [RANGE 1 HOUR]\ngrouping columns: item\n")
    assert second == "requests: asking for template t\nparameters: item\ncarried along: id"
