"""What the shell answers without a whole run: the first rows of a SELECT, and a SELECT without FROM."""

from __future__ import annotations

from pathlib import Path

import pytest

from eddyline.cli.inference import declaration
from eddyline.cli.interactive.first_rows import limited, stop_after
from eddyline.language import render
from eddyline.session import Session
from eddyline.settings import Settings
from tests.cli.test_shell_words import typed

BIDS = """item,price,ts
1,10.5,2024-01-01 00:00:00
2,200,2024-01-01 00:00:01
1,300,2024-01-01 00:00:02
3,400,2024-01-01 00:00:03
"""


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bids.csv").write_text(BIDS)
    (tmp_path / "names.csv").write_text("item,name\n1,one\n2,two\n3,three\n")
    return tmp_path


def test_the_first_rows_of_a_stream(work: Path) -> None:
    said, shell = typed(".open bids bids.csv", ".limit 1", "SELECT *\nFROM bids -- all\nLIMIT 3 -- of them\n;")
    assert not shell.mistakes and "3 rows in " in said and "300.0" in said and "400.0" not in said
    assert "more rows" not in said


def test_the_first_results_of_a_condition(work: Path) -> None:
    said, _ = typed(".open bids bids.csv", "SELECT price FROM bids WHERE price > 100 limit 2;")
    assert "2 rows in " in said and "200.0" in said and "300.0" in said and "10.5" not in said
    assert "4 rows in " in typed(".open bids bids.csv", "SELECT price FROM bids LIMIT 100;")[0]


def test_a_preview_reads_no_further(work: Path) -> None:
    (work / "many").mkdir()
    for number in range(50):
        (work / "many" / f"{number:02}.csv").write_text(BIDS)
    with Session(Settings().with_option("epoch_rows", 4)) as session:
        session.execute(render(declaration("many", "many").statement))
        query = session.query("all_rows", "SELECT price FROM many")
        stop_after(session, "all_rows", 2)
        session.run()
        assert 2 <= len(query) < 20
        assert session.stats()["rows_in"]["many"] < 20


@pytest.mark.parametrize(
    "statement", ["SELECT COUNT(*) AS n FROM bids LIMIT 1;", "SELECT DISTINCT item FROM bids [RANGE 1 HOUR] LIMIT 1;"]
)
def test_passing_values_are_not_shown_for_results(work: Path, statement: str) -> None:
    said, shell = typed(".open bids bids.csv", statement)
    assert shell.mistakes == 1 and "where results change" in said and "hint: leave LIMIT out" in said


def test_the_first_rows_of_a_stream_that_a_query_makes(work: Path) -> None:
    said, shell = typed(".open bids bids.csv", "SELECT p FROM (SELECT price AS p FROM bids) x LIMIT 2;")
    assert "2 rows in " in said and "300" not in said and not shell.mistakes


def test_the_first_rows_of_a_table(work: Path) -> None:
    said, shell = typed(".open names names.csv", "SELECT * FROM Names LIMIT 2;")
    assert "2 rows in " in said and "two" in said and "three" not in said and not shell.mistakes


def test_a_file_in_from(work: Path) -> None:
    said, shell = typed("SELECT * FROM 'bids.csv' LIMIT 3;", "SELECT price FROM bids;", "SELECT item FROM 'bids.csv';")
    assert not shell.mistakes and said.count("CREATE STREAM bids") == 1
    assert "3 rows in " in said and said.count("4 rows in ") == 2
    said, shell = typed("SELECT * FROM 'none.csv' LIMIT 3;")
    assert shell.mistakes == 1 and "none.csv" in said


def test_the_largest_rows_are_still_those_of_order_by(work: Path) -> None:
    said, shell = typed(
        ".open bids bids.csv",
        "SELECT item, price FROM bids [RANGE 1 HOUR] ORDER BY price DESC LIMIT 1 EMIT EVERY 1 SECOND;",
    )
    assert shell.mistakes == 0, said
    assert typed(".open bids bids.csv", "SELECT price FROM bids LIMIT 3 EMIT ON CHANGE;")[1].mistakes == 1
    assert limited("SELECT 'LIMIT 3'") is None and limited("CREATE QUERY q AS SELECT 1 FROM s LIMIT 3") is None


def test_constants(work: Path) -> None:
    said, shell = typed("SELECT 1;", "SELECT upper('from') AS word, 2 * 3.5 AS number, date '2024-02-29' AS day;")
    assert not shell.mistakes and said.count("1 row in ") == 2
    assert "FROM" in said and "7.0" in said and "2024-02-29" in said and "_ts" not in said


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("SELECT price;", "this SELECT has no FROM"),
        ("SELECT *;", "a query reads at least one stream"),
        ("SELECT nonsense(1);", "nonsense"),
    ],
)
def test_what_is_no_constant_is_refused(statement: str, words: str) -> None:
    said, shell = typed(statement)
    assert shell.mistakes == 1 and words in said and "hint: " in said
