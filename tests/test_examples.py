"""Every example runs, and gives what it says; the answers of jobs are compared with DuckDB over the same files."""

from __future__ import annotations

import ast
import json
import shlex
import sys
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as parquet
import pytest

from eddyline.cli.__main__ import main
from tests import forks

FOLDER = Path(__file__).resolve().parents[1] / "examples"

PRINTED = {
    "first_query": ["2024-01-01 12:00:50 ada 120.0", "2024-01-01 12:01:20 bob 150.0"],
    "callback": ["press: 82.0 at 08:00:02", "press: 90.0 at 08:00:03"],
    "nested": ["1 Paris tea", "3 Paris tea", "tea 7", "cup 1"],
    "own_function": ["Linienstr. red 1.3"],
    "on_request": ["[{'dst': 'news', 'bytes': 300}, {'dst': 'mail', 'bytes': 200}]", "[{'packets': 3}]"],
    "clustered": ["808 results", "stretches left out: True violations: 0"],
    "come_and_go": ["later saw [11.0]", "every saw [10.0, 20.0, 11.0, 21.0, 12.0]"],
}

BIG_BIDS = """
    SELECT a.item_id, a.category, b.bidder, b.price * (1 + c.vat) AS gross, greatest(a.ts, b.ts) AS _ts
    FROM 'data/auctions/*.parquet' a, 'data/bids/*.parquet' b, 'data/categories.parquet' c
    WHERE a.item_id = b.item_id AND a.category = c.category AND b.price > 50 AND abs(epoch_us(a.ts) - epoch_us(b.ts)) <= 60000000
"""
RAISED = """
    SELECT x.item_id, x.bidder, x.price AS first_price, y.price AS second_price, y.ts AS _ts
    FROM 'data/bids/*.parquet' x, 'data/bids/*.parquet' y
    WHERE x.item_id = y.item_id AND x.bidder = y.bidder AND x.price < y.price AND x.ts < y.ts
      AND epoch_us(y.ts) - epoch_us(x.ts) <= 30000000
"""
PER_MINUTE = """
    SELECT date_trunc('minute', ts) AS minute, count(*) AS bids, round(sum(price), 6) AS volume FROM 'data/bids/*.parquet'
    GROUP BY 1
"""
NEWEST = "SELECT max(ts) FROM (SELECT ts FROM 'data/auctions/*.parquet' UNION ALL SELECT ts FROM 'data/bids/*.parquet')"
WINNERS = f"""
    SELECT a.item_id, count(*), max(b.price), arg_max(b.bidder, b.price), '+', least(any_value(a.closes), ({NEWEST})) AS _ts
    FROM 'data/auctions/*.parquet' a, 'data/bids/*.parquet' b
    WHERE a.item_id = b.item_id AND b.ts <= a.closes
    GROUP BY a.item_id
"""
IGNORED = """
    SELECT a.item_id, a.category, a.ts + INTERVAL 1 MINUTE AS _ts FROM 'data/auctions/*.parquet' a
    WHERE NOT EXISTS (SELECT * FROM 'data/bids/*.parquet' b
                      WHERE b.item_id = a.item_id AND b.price > 50 AND abs(epoch_us(a.ts) - epoch_us(b.ts)) <= 60000000)
"""
BUSIEST = """
    SELECT date_trunc('minute', ts) AS minute, item_id, count(*) AS bids, '+', minute + INTERVAL 59999999 MICROSECOND AS _ts
    FROM 'data/bids/*.parquet' WHERE price > 50 GROUP BY minute, item_id
    QUALIFY row_number() OVER (PARTITION BY minute ORDER BY bids DESC, item_id) <= 3
"""


def run_job(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the data as the first line of the job says, and run it."""
    monkeypatch.chdir(folder)
    job = FOLDER / f"{name}.sql"
    first = job.read_text().splitlines()[0]
    assert first.startswith("-- data: eddyline ")
    assert main(shlex.split(first.removeprefix("-- data: eddyline "))) == 0
    assert main(["run", str(job), "--once", "--out", "results", "--quiet"]) == 0


def answered(query: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in parquet.read_table(f"results/{query}").to_pylist())


def test_the_event_log_shows_matches_and_violations(tmp_path: Path) -> None:
    done = forks.run(
        [sys.executable, str(FOLDER / "event_log.py")], cwd=tmp_path, capture_output=True, text=True, timeout=480
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "34000" in done.stdout and "violation: PRIOR(CheckCredit, SendOffer), trace 35" in done.stdout


@pytest.mark.parametrize("name", sorted(PRINTED))
def test_programs_print_what_they_should(name: str, tmp_path: Path) -> None:
    done = forks.run(
        [sys.executable, str(FOLDER / f"{name}.py")], cwd=tmp_path, capture_output=True, text=True, timeout=480
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == PRINTED[name]


def test_generators(tmp_path: Path) -> None:
    done = forks.run(
        [sys.executable, str(FOLDER / "generators.py")], cwd=tmp_path, capture_output=True, text=True, timeout=480
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line.split(": ") for line in done.stdout.splitlines()]
    assert [kind for kind, _ in lines] == ["auction", "sensors", "clique", "orders"]
    assert all(not text.endswith(" 0 results") for _, text in lines)


@pytest.mark.parametrize(
    ("name", "query", "sql"), [("window_join", "big_bids", BIG_BIDS), ("self_join", "raised", RAISED)]
)
def test_joins_are_those_of_duckdb(
    name: str, query: str, sql: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_job(name, tmp_path, monkeypatch)
    expected = sorted(duckdb.sql(sql).fetchall())
    assert len(expected) > 0
    assert answered(query) == expected


def test_aggregates_are_those_of_duckdb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_job("aggregates", tmp_path, monkeypatch)
    minutes = [(minute, bids, round(volume, 6)) for minute, bids, volume, op, _ in answered("per_minute") if op == "+"]
    assert minutes == sorted(duckdb.sql(PER_MINUTE).fetchall()) != []
    # Applying the changes up to the last instant of emission gives the table at that instant.
    held: dict[object, tuple[object, ...]] = {}
    changes = parquet.read_table("results/busy").to_pylist()
    for change in changes:
        held.pop(change["item_id"], None)
        if change["_op"] == "+":
            held[change["item_id"]] = (change["item_id"], change["bids"], change["top"], change["bidders"])
    now = f"TIMESTAMP '{changes[-1]['_ts']}'"
    expected = duckdb.sql(f"""
        SELECT item_id, count(*), max(price), count(DISTINCT bidder) FROM 'data/bids/*.parquet'
        WHERE ts <= {now} AND ts >= {now} - INTERVAL 1 MINUTE GROUP BY item_id HAVING count(*) >= 5
    """).fetchall()
    assert sorted(held.values()) == sorted(expected) != []


@pytest.mark.parametrize(
    ("name", "answers"),
    [("closing_auctions", {"winners": WINNERS}), ("composed", {"ignored": IGNORED, "busiest": BUSIEST})],
)
def test_final_answers_are_those_of_duckdb(
    name: str, answers: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_job(name, tmp_path, monkeypatch)
    for query, sql in answers.items():
        assert answered(query) == sorted(duckdb.sql(sql).fetchall()) != []


def test_the_notebook_runs_from_top_to_bottom() -> None:
    """Its cells share their names, and the last expression of a cell is what a notebook shows."""
    names: dict[str, object] = {}
    shown: list[Any] = []
    for number, cell in enumerate(json.loads((FOLDER / "notebook.ipynb").read_text())["cells"]):
        if cell["cell_type"] != "code":
            continue
        assert cell["outputs"] == [] and cell["execution_count"] is None, "outputs are not kept in the file"
        tree = ast.parse("".join(cell["source"]), f"cell {number}")
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, f"cell {number}", "exec"), names)
        if last is not None:
            found = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
            shown.append(found._repr_html_() if hasattr(found, "_repr_html_") else found)
    frame, session, raised, dead, minutes, query, plan, stopped = shown
    assert "a lot" in frame and "135.5" in frame
    assert "raised" in session and "per_minute" in session
    assert raised.count("<tr") == 4 and "120.0" in raised
    assert dead == ["bad: pushed row 4: column price is declared as DOUBLE and holds 'a lot'"]
    assert minutes.count("<tr") == 3 and "150.0" in minutes and "90.0" in minutes
    assert "4 results" in query
    assert "<svg" in plan
    assert stopped is None


def test_every_example_is_listed_and_tested() -> None:
    listed = (FOLDER / "README.md").read_text()
    found = sorted(path.name for path in FOLDER.iterdir() if path.suffix in (".py", ".sql", ".ipynb"))
    # Those on Spark are run by tests/spark/test_pages.py.
    tested = (
        ["notebook.ipynb"]
        + [f"{name}.py" for name in (*PRINTED, "event_log", "generators", "spark_frames", "spark_query")]
        + [f"{name}.sql" for name in ("window_join", "self_join", "aggregates", "closing_auctions", "composed")]
    )
    assert found == sorted(tested)
    assert all(f"]({name})" in listed for name in found)
