"""`eddyline run` as a user calls it: files in, files out, figures, errors with exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline.cli.__main__ import main
from eddyline.runtime.recovery.checkpoint_identity import claim

JOB = """
CREATE STREAM auctions (item_id BIGINT, category STRING, seller BIGINT, ts TIMESTAMP)
  WITH (format='parquet', path='data/auctions', time='ts', lateness='0 seconds');
CREATE STREAM bids (item_id BIGINT, bidder BIGINT, price DOUBLE, ts TIMESTAMP)
  WITH (format='parquet', path='data/bids', time='ts');
CREATE TABLE categories (category STRING, vat DOUBLE) WITH (format='parquet', path='data/categories.parquet');
SET epoch_rows = 700;
CREATE QUERY big_bids AS
  SELECT a.item_id, a.category, b.bidder, b.price * (1 + c.vat) AS gross
  FROM auctions [RANGE 10 MINUTES] a, bids [RANGE 10 MINUTES] b, categories c
  WHERE a.item_id = b.item_id AND a.category = c.category AND b.price > 100;
CREATE QUERY pairs WITH (plan = '((a b) c)') AS
  SELECT a.item_id, b.price AS p1, c.price AS p2
  FROM auctions [RANGE 1 HOUR] a JOIN bids b [ROWS 1000] ON a.item_id = b.item_id, bids [RANGE 5 MINUTES] c
  WHERE c.item_id = a.item_id AND b.price < c.price;
CREATE QUERY nothing AS SELECT bidder FROM bids WHERE price < 0;
"""


def write(path: Path, **columns: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.table(columns), path)


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    for part in range(3):
        ts = np.sort(rng.integers(0, 600, 200)) * 1_000_000 + part * 600_000_000
        write(
            tmp_path / f"data/auctions/{part}.parquet",
            item_id=rng.integers(0, 50, 200),
            category=pa.array([f"c{i}" for i in rng.integers(0, 4, 200)]),
            seller=rng.integers(0, 9, 200),
            ts=pa.array(ts, pa.timestamp("us")),
        )
        ts = np.sort(rng.integers(0, 600, 400)) * 1_000_000 + part * 600_000_000
        write(
            tmp_path / f"data/bids/{part}.parquet",
            item_id=rng.integers(0, 50, 400),
            bidder=rng.integers(0, 99, 400),
            price=rng.uniform(0, 200, 400),
            ts=pa.array(ts, pa.timestamp("us")),
        )
    write(tmp_path / "data/categories.parquet", category=["c0", "c1", "c2"], vat=[0.1, 0.2, 0.0])
    (tmp_path / "job.sql").write_text(JOB)
    return tmp_path


def test_results_are_files_in_time_order(work: Path) -> None:
    assert (
        main(
            [
                "run",
                "job.sql",
                "--engine",
                "embedded",
                "--once",
                "--out",
                "results/",
                "--stats",
                "stats.json",
                "--quiet",
            ]
        )
        == 0
    )
    import duckdb

    expected = duckdb.sql(
        "SELECT count(*) FROM 'data/auctions/*.parquet' a, 'data/bids/*.parquet' b, 'data/categories.parquet' c "
        "WHERE a.item_id = b.item_id AND a.category = c.category AND b.price > 100 AND abs(epoch_us(a.ts) - epoch_us(b.ts)) <= 600000000"
    ).fetchall()[0]
    files = sorted((work / "results/big_bids").glob("*.parquet"))
    found = pa.concat_tables([parquet.read_table(f) for f in files])
    assert found.schema.names == ["item_id", "category", "bidder", "gross", "_ts"]
    assert found.schema.field("_ts").type == pa.timestamp("us")
    assert found.num_rows == expected[0]
    times = found.column("_ts").cast(pa.int64()).to_numpy()
    assert (np.diff(times) >= 0).all()
    (empty,) = (work / "results/nothing").glob("*.parquet")
    assert parquet.read_table(empty).num_rows == 0 and parquet.read_schema(empty).names == ["bidder", "_ts"]
    stats = json.loads((work / "stats.json").read_text())
    assert stats["results"]["big_bids"] == found.num_rows and stats["results"]["nothing"] == 0
    assert stats["rows_in"] == {"auctions": 600, "bids": 1200}
    assert stats["epochs"] == len(stats["epoch_seconds"]) >= 3
    assert "tree: ((a b) c)" in stats["plan"]["pairs"]
    wanted = {
        "elapsed_s",
        "late",
        "bad",
        "partials_produced",
        "probes",
        "peak_stored_rows",
        "stored_rows",
        "peak_state_bytes",
        "operators",
    }
    assert wanted <= stats.keys()
    assert stats["partials_produced"] > 0 and isinstance(stats["peak_stored_rows"], int)


def test_a_full_output_folder_is_refused_unless_told(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["run", "job.sql", "--once", "--out", "results", "--quiet"]
    assert main(arguments) == 0
    assert main(arguments) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert main([*arguments, "--overwrite"]) == 0


def test_late_and_bad_rows_are_kept_with_their_reason(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(
        work / "data/bids/9.parquet",
        item_id=pa.array([1, 2, 3]),
        bidder=pa.array([1, 2, 3]),
        price=pa.array(["12.5", "cheap", "9"]),
        ts=pa.array([0, 1, 1_800_000_000], pa.timestamp("us")),
    )
    (work / "data/bids/8.parquet").write_bytes(b"not parquet")
    assert main(["run", "job.sql", "--once", "--out", "results", "--stats", "stats.json", "--quiet"]) == 0
    (said,) = [line for line in capsys.readouterr().err.splitlines() if "dead letter" in line]
    assert (
        said.startswith("warning: a row of stream bids is a dead letter: ") and "results/_dead_letter/bids has" in said
    )
    dead = parquet.read_table(work / "results/_dead_letter/bids").to_pylist()
    reasons = sorted(row["_reason"].split(":")[0] for row in dead)
    assert reasons == ["bad", "bad", "late"]
    assert any(row["price"] == "cheap" for row in dead) and any("8.parquet" in row["_reason"] for row in dead)
    stats = json.loads((work / "stats.json").read_text())
    assert stats["late"]["bids"] == 1 and stats["bad"]["bids"] == 2


@pytest.mark.parametrize("setting", ["on_late", "on_bad"])
def test_late_and_bad_rows_can_stop_the_job(work: Path, setting: str, capsys: pytest.CaptureFixture[str]) -> None:
    bad = pa.array(["x"]) if setting == "on_bad" else pa.array(["1"])
    write(
        work / "data/bids/9.parquet",
        item_id=pa.array([1]),
        bidder=pa.array([1]),
        price=bad,
        ts=pa.array([5], pa.timestamp("us")),
    )
    (work / "job.sql").write_text(f"SET {setting} = 'error';" + JOB)
    assert main(["run", "job.sql", "--once", "--quiet"]) == 2
    assert setting in capsys.readouterr().err


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("SELECT nobody FROM bids", "nobody"),
        ("SELECT bidder FROM strangers", "strangers"),
        ("SELECT b.bidder FROM bids b LEFT JOIN auctions a ON a.item_id = b.item_id", "hint"),
        ("SELECT category FROM categories [RANGE 5 SECONDS]", "window"),
        ("SELECT bidder FROM bids WHERE price = 'a' || 1 + 2", "line"),
        ("SELECT bidder FROM bids ORDER BY bidder", "hint"),
    ],
)
def test_mistakes_are_exit_code_two(work: Path, sql: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    (work / "job.sql").write_text(JOB + f"CREATE QUERY wrong AS {sql};")
    for command in ("check", "run"):
        assert main([command, "job.sql"]) == 2
        assert says in capsys.readouterr().err


def test_a_plan_with_an_unknown_alias_is_refused(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (work / "job.sql").write_text(JOB.replace("((a b) c)", "((a b) z)"))
    assert main(["check", "job.sql"]) == 2
    assert "names z" in capsys.readouterr().err


def test_a_missing_file_is_said_before_the_start(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (work / "job.sql").write_text(JOB.replace("data/bids'", "data/nowhere'"))
    assert main(["run", "job.sql", "--once"]) == 2
    assert "data/nowhere" in capsys.readouterr().err
    assert main(["run", "absent.sql"]) == 2
    assert "absent.sql" in capsys.readouterr().err


def test_a_sink_for_all_queries(work: Path) -> None:
    (work / "job.sql").write_text(JOB + "CREATE SINK everything FOR ALL WITH (format='parquet', path='all');")
    assert main(["run", "job.sql", "--once", "--out", "results", "--stats", "stats.json", "--quiet"]) == 0
    table = parquet.read_table(work / "all")
    stats = json.loads((work / "stats.json").read_text())
    assert table.num_rows == sum(stats["results"].values())
    assert set(table.column("_query").unique().to_pylist()) == {"big_bids", "pairs"}


@pytest.mark.parametrize("probe", ["hash", "loop"])
@pytest.mark.parametrize("plan", ["auto", "mjoin", "bjtree", "(c (a b))", "(a b c)"])
def test_every_plan_gives_the_same_results(work: Path, plan: str, probe: str) -> None:
    (work / "job.sql").write_text(JOB.replace("plan = '((a b) c)'", f"plan = '{plan}', probe = '{probe}'"))
    assert main(["run", "job.sql", "--once", "--out", "results", "--quiet"]) == 0
    found = parquet.read_table(work / "results/pairs").to_pylist()
    (work / "job.sql").write_text(JOB)
    assert main(["run", "job.sql", "--once", "--out", "expected", "--quiet"]) == 0
    expected = parquet.read_table(work / "expected/pairs").to_pylist()
    key = lambda row: tuple(row.values())
    assert sorted(found, key=key) == sorted(expected, key=key) and len(found) > 100


def test_version_and_explain(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0 and main(["explain", "job.sql", "--rules"]) == 0
    shown = capsys.readouterr().out
    assert "eddyline 0." in shown and "tree: ((a b) c)" in shown


def test_explain_analyze_says_what_was_done(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    select = "SELECT a.item_id FROM auctions [RANGE 1 MINUTE] a, bids [RANGE 1 MINUTE] b WHERE a.item_id = b.item_id"
    (work / "job.sql").write_text(JOB + f"EXPLAIN ANALYZE pairs; EXPLAIN {select}; EXPLAIN ANALYZE {select};")
    assert main(["run", "job.sql", "--once", "--quiet"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("query: pairs") == 1 and shown.count("query: select") == 2
    assert "join a⋈b: " in shown and "partial results" in shown and "results: " in shown


HOURS = """CREATE STREAM bids (item_id BIGINT, bidder BIGINT, price DOUBLE, ts TIMESTAMP)
  WITH (format='parquet', path='data/bids', time='ts');
CREATE QUERY hours AS SELECT count(*) AS n FROM bids GROUP BY TUMBLE(ts, '1 hour') EMIT ON CLOSE"""


def test_a_run_without_a_checkpoint_closes_its_windows(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All rows are of one hour."""
    (work / "hours.sql").write_text(HOURS.replace("count(*)", "window_end, count(*)"))
    kept = ["--checkpoint", "state"]
    runs = [([], 1), (["--no-final"], 0), (["--final"], 1), (kept, 0), ([*kept, "--final"], 1)]
    for number, (options, windows) in enumerate(runs):
        out = "out" if "--checkpoint" in options else f"out{number}"
        assert main(["run", "hours.sql", "--once", "--quiet", "--out", out, *options]) == 0
        found = [parquet.read_table(path) for path in Path(out, "hours").glob("*.parquet")]
        assert [row["n"] for table in found for row in table.to_pylist()] == [1200] * windows, options
    assert main(["run", "hours.sql", "--once", "--out", "out", *kept]) == 2
    assert "has ended" in capsys.readouterr().err
    assert main(["run", "hours.sql", "--once", "--final", "--engine", "spark"]) == 2
    said = capsys.readouterr().err
    assert "--final is for --engine embedded" in said and "starting Spark" not in said


def test_without_spark_there_is_a_hint(
    work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("eddyline.cli.run.find_spec", lambda name: None)
    assert main(["run", "job.sql", "--engine", "spark", "--once"]) == 2
    assert "eddyline[spark]" in capsys.readouterr().err


@pytest.mark.parametrize("stats", ["missing/stats.json", "data"])
def test_a_file_for_figures_is_checked_before_the_run(
    work: Path, stats: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "job.sql", "--once", "--out", "results", "--stats", stats, "--quiet"]) == 2
    said = capsys.readouterr().err
    assert f"--stats {stats}" in said and "hint:" in said and not (work / "results").exists()


def test_a_checkpoint_of_the_other_engine_is_refused(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    claim(str(work / "state"), "spark", 4).release()
    (work / "results").mkdir()
    (work / "results/kept").write_text("")
    assert main(["run", "job.sql", "--once", "--out", "results", "--checkpoint", "state", "--quiet"]) == 2
    said = capsys.readouterr().err
    assert "engine spark" in said and "--engine spark" in said and "--overwrite" not in said
    assert (work / "results/kept").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--out", "state", "--checkpoint", "state"], "the checkpoint of this job"),
        (["--out", "results", "--checkpoint", "results/state"], "the checkpoint of this job"),
        (["--out", "data/bids"], "stream bids of this job"),
        (["--out", "data", "--checkpoint", "state"], "stream auctions of this job"),
        (["--out", "results", "--checkpoint", "job.sql"], "job.sql is a file"),
    ],
)
@pytest.mark.parametrize("overwrite", [[], ["--overwrite"]], ids=["", "overwrite"])
def test_folders_that_the_job_needs_are_not_emptied(
    work: Path, options: list[str], said: str, overwrite: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted((work / "data").rglob("*"))
    for _ in range(2):
        assert main(["run", "job.sql", "--once", "--quiet", *options, *overwrite]) == 2
        error = capsys.readouterr().err
        assert said in error and "hint:" in error and "--overwrite" not in error
    assert sorted((work / "data").rglob("*")) == before
    assert sorted(file.name for file in work.rglob("eddyline.json")) == ["eddyline.json"] * (
        "state" in "".join(options)
    )
