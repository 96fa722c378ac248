"""What only the shell has: SHOW, DESCRIBE, and the words of other shells."""

from __future__ import annotations

from pathlib import Path

import pytest

from eddyline.cli.interactive.listing import KINDS
from eddyline.cli.interactive.texts import command_of, outer_text
from eddyline.model.expressions.functions import AGGREGATES
from tests.cli.shell_lines import BIDS, typed


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bids.csv").write_text(BIDS)
    return tmp_path


@pytest.mark.parametrize("word", ["exit", "QUIT", "exit;", "quit ;", "\\q", ".exit", ".quit"])
def test_words_that_leave(word: str) -> None:
    assert typed(word, "help")[0] == ""


@pytest.mark.parametrize("word", ["help", "HELP;", "\\?", ".help"])
def test_words_that_help(word: str) -> None:
    said, shell = typed(word)
    assert "SHOW STREAMS | QUERIES | TABLES | SINKS | SETTINGS | FUNCTIONS" in said and not shell.mistakes


def test_words_inside_a_statement_are_its_own(work: Path) -> None:
    said, shell = typed(".open bids bids.csv", "SELECT price AS", "exit", "FROM bids;")
    assert "3 rows in " in said and "exit" in said and not shell.mistakes
    assert command_of("help me") == "" and command_of("exits") == ""


def test_entries_are_listed(work: Path) -> None:
    (work / "names.csv").write_text("item,name\n1,one\n")
    said, shell = typed(
        ".open bids bids.csv",
        ".open names names.csv",
        "SHOW QUERIES; SHOW SINKS;",
        "CREATE QUERY dear AS SELECT item FROM bids WHERE price > 100;",
        "CREATE SINK s FOR dear WITH (path = 'never');",
        "SET epoch_rows = 77;",
        "\\d",
        "SHOW STREAMS;",
        "show tables; SHOW Queries;",
        "SHOW SINKS; SHOW SETTINGS;",
    )
    assert not shell.mistakes
    assert "there are no queries" in said and "there are no sinks" in said
    assert "stream bids (item, price, ts)" in said
    assert "item BIGINT, price DOUBLE, ts TIMESTAMP" in said and "item BIGINT, name STRING" in said
    assert "SELECT item FROM bids WHERE price > 100" in said
    assert "path = never" in said
    assert any("epoch_rows" in line and " 77 " in line for line in said.splitlines())


def test_functions_are_listed_whatever_the_limit() -> None:
    said, _ = typed(".limit 1", "SHOW FUNCTIONS;")
    assert "date_trunc(" in said and all(f"{name}(" in said for name in AGGREGATES)
    assert "more rows" not in said


def test_columns_are_described(work: Path) -> None:
    said, shell = typed(
        ".open bids bids.csv",
        "CREATE QUERY dear AS SELECT item, price * 2 AS twice FROM bids WHERE price > 100;",
        "DESCRIBE bids;",
    )
    assert any("ts" in line and "TIMESTAMP" in line and "event time" in line for line in said.splitlines())
    for statement in ("DESCRIBE dear;", "desc DEAR;", "DESCRIBE SELECT price * 2 AS twice FROM bids;"):
        said, shell = typed(
            ".open bids bids.csv", "CREATE QUERY dear AS SELECT item, price * 2 AS twice FROM bids;", statement
        )
        assert any("twice" in line and "DOUBLE" in line for line in said.splitlines()), statement
    assert not shell.mistakes
    assert typed("\\d bids")[1].mistakes == 1


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("SHOW;", "SHOW needs a word"),
        ("SHOW COLUMNS;", "SHOW does not take COLUMNS"),
        ("DESCRIBE;", "DESCRIBE needs a name"),
        ("DESCRIBE nothing;", "there is no stream or table nothing"),
        ("DESCRIBE SET epoch_rows = 1;", "DESCRIBE takes a name or a SELECT"),
        ("\\x", "there is no command \\x"),
    ],
)
def test_what_is_refused_has_a_hint(statement: str, words: str) -> None:
    said, shell = typed(statement)
    assert shell.mistakes == 1 and words in said and "hint: " in said
    assert set(KINDS) == {"streams", "queries", "tables", "sinks", "settings", "functions"}


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT price FROM bids UNION ALL SELECT price FROM bids;",
        "SELECT p FROM (SELECT price AS p FROM bids UNION ALL SELECT price AS p FROM bids) x;",
        "SELECT price FROM both;",
    ],
)
def test_streams_that_queries_make_are_read(work: Path, statement: str) -> None:
    said, shell = typed(
        ".open bids bids.csv",
        "CREATE STREAM both AS SELECT price FROM bids UNION ALL SELECT price FROM bids;",
        statement,
    )
    assert "stream both, " in said and "6 rows in " in said and not shell.mistakes


def test_clauses_are_found_outside_of_quotes_and_parentheses() -> None:
    assert outer_text("SELECT ';' -- FROM\nFROM (SELECT ')' x)") == "SELECT '''        \nFROM               "
    assert outer_text("f((a), b) LIMIT 3") == "f         LIMIT 3"
