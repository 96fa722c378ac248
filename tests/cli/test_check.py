"""`eddyline check`: what is wrong with a job, without running it."""

from pathlib import Path

import pytest

from eddyline.cli.__main__ import main

STREAMS = """
CREATE STREAM bids (item BIGINT, price DOUBLE, ts TIMESTAMP) WITH (format = 'parquet', path = 'nowhere', time = 'ts');
CREATE STREAM asks (item BIGINT, price DOUBLE, ts TIMESTAMP) WITH (format = 'parquet', path = 'nowhere', time = 'ts');
"""


def check(folder: Path, text: str) -> int:
    path = folder / "job.sql"
    path.write_text(STREAMS + text)
    return main(["check", str(path)])


def test_a_good_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(tmp_path, "CREATE QUERY q AS SELECT item FROM bids; CREATE QUERY r AS SELECT item FROM asks") == 0
    assert capsys.readouterr().out == f"{tmp_path}/job.sql: 2 streams, 0 tables, 2 queries, 0 sinks; no problem found\n"


def test_what_grows_for_ever_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(tmp_path, "CREATE QUERY q AS SELECT a.item FROM asks a, bids [ROWS 3] b WHERE a.item = b.item") == 0
    first, last = capsys.readouterr().out.splitlines()
    assert first == "warning: query q: the store of asks (a) grows for ever, it has no window"
    assert last.endswith("2 streams, 0 tables, 1 query, 0 sinks; no problem found")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "SELECT item, price FROM asks [RANGE 1 MICROSECOND] QUALIFY ROW_NUMBER() OVER (PARTITION BY item ORDER BY price DESC) <= 3",
            "asks [RANGE 1 MICROSECONDS]",
        ),
        (
            "SELECT item, count(*) AS n FROM asks [RANGE 999 MILLISECONDS] GROUP BY item",
            "asks [RANGE 999 MILLISECONDS]",
        ),
        ("SELECT DISTINCT a.item FROM asks [NOW] a, bids [RANGE 1 MINUTE] b WHERE a.item = b.item", "asks [NOW]"),
        ("SELECT item, count(*) AS n FROM asks [RANGE 1 SECOND] GROUP BY item", ""),
        ("SELECT item, count(*) AS n FROM asks [RANGE 1 MICROSECOND] GROUP BY item EMIT EVERY 1 SECOND", ""),
        ("SELECT window_end, count(*) AS n FROM asks [NOW] GROUP BY TUMBLE(ts, '1 second') EMIT ON CHANGE", ""),
        ("SELECT a.item FROM asks [NOW] a, bids [RANGE 1 MILLISECOND] b WHERE a.item = b.item", ""),
    ],
)
def test_what_comes_and_goes_unseen_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    assert check(tmp_path, f"CREATE QUERY q AS {text}") == 0
    found = [line for line in capsys.readouterr().out.splitlines() if "come and go" in line]
    assert len(found) == bool(said)
    for line in found:
        assert f"rows of {said} that come and go between two outputs of EMIT ON CHANGE are never shown" in line
        assert "leave the window out" in line and "EMIT EVERY" in line


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CREATE QUERY q AS SELECT itm FROM bids", "itm"),
        ("SELEC", "SELEC"),
        (
            "CREATE QUERY q WITH (plan = '(a z)') AS SELECT a.item FROM asks a, bids b",
            "the plan names z, which is not in FROM",
        ),
        ("SET plan = '(a z)'; EXPLAIN SELECT a.item FROM asks a, bids b", "the plan names z, which is not in FROM"),
        (
            "SET unbounded = 'error'; CREATE QUERY q AS SELECT a.item FROM asks a, bids b",
            "the store of asks (a) grows for ever",
        ),
    ],
)
def test_a_problem_is_told_with_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    assert check(tmp_path, text) == 2
    printed = capsys.readouterr()
    assert message in printed.err and "no problem found" not in printed.out


def test_streams_of_requests_keep_nothing_for_ever(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = """SET unbounded = 'error';
    CREATE TEMPLATE t AS SELECT item, COUNT(*) AS n FROM bids [RANGE 1 HOUR] GROUP BY item;
    CREATE REQUESTS asking (id BIGINT, item BIGINT, ts TIMESTAMP) FOR t WITH (time = 'ts');"""
    assert check(tmp_path, text) == 0
    assert capsys.readouterr().out.endswith(
        "job.sql: 3 streams, 0 tables, 0 queries, 0 sinks, 1 template; no problem found\n"
    )
