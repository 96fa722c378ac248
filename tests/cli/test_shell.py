"""`eddyline shell`: statements and commands as a user types them, from a pipe and on a terminal."""

from __future__ import annotations

import gzip
import io
import os
import pty
import re
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline.cli.__main__ import main
from eddyline.cli.inference import declaration, stem
from eddyline.cli.shell import split
from eddyline.errors import SourceProblem
from eddyline.language import render
from tests.cli.shell_lines import BIDS, typed


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bids.csv").write_text(BIDS)
    return tmp_path


def piped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str, *files: str
) -> tuple[int, str]:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    code = main(["shell", *files])
    return code, capsys.readouterr().out


def test_a_select_is_shown_as_a_table(
    work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = piped(monkeypatch, capsys, "SELECT item, price\nFROM bids\nWHERE price > 100;\n", "bids.csv")
    assert code == 0
    assert "CREATE STREAM bids (item BIGINT, price DOUBLE, ts TIMESTAMP)" in said
    assert "300.0" in said and "10.5" not in said
    assert "2 rows in " in said


def test_a_self_join_over_the_opened_file(work: Path) -> None:
    said, _ = typed(
        ".open bids bids.csv",
        "SELECT x.price AS low, y.price AS high FROM bids [RANGE 5 SECONDS] x, bids [RANGE 5 SECONDS] y",
        "WHERE x.item = y.item AND x.price < y.price;",
    )
    assert "1 row in " in said


def test_mistakes_are_shown_with_their_hint_and_end_nothing(
    work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "SELECT pric FROM bids;\n.nonsense\n.open\nSELECT price FROM bids ORDER BY price;\nSELECT price FROM bids;\n"
    code, said = piped(monkeypatch, capsys, text, "bids.csv")
    assert code == 2
    assert said.count("error: ") == 4
    assert "hint: .help lists the commands" in said
    assert "3 rows in " in said


def test_the_last_statement_needs_no_semicolon(
    work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = piped(monkeypatch, capsys, "SELECT price FROM bids", "bids.csv")
    assert (code, "3 rows in " in said) == (0, True)


def test_job_files_are_carried_out(
    work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (work / "job.sql").write_text(
        "CREATE STREAM b (item BIGINT, price DOUBLE, ts TIMESTAMP) WITH (format='csv', path='bids.csv', time='ts');\n"
        "CREATE QUERY dear AS SELECT item FROM b WHERE price > 250;\n"
        "CREATE SINK s FOR dear WITH (path='never');\n"
    )
    code, said = piped(monkeypatch, capsys, ".tables\n.run dear\n.schema dear\n.schema b\nEXPLAIN dear;\n", "job.sql")
    assert code == 0
    assert "stream b (item, price, ts)" in said
    assert "1 row in " in said
    assert "item BIGINT\nSELECT item FROM b WHERE price > 250" in said
    assert "ts TIMESTAMP  -- event time" in said
    assert "query: dear\ntree: b\n" in said
    assert not (work / "never").exists()


def test_settings_hold_for_what_follows(work: Path) -> None:
    said, shell = typed(
        ".open bids bids.csv", "SET epoch_rows = 1;", "EXPLAIN SELECT price FROM bids;", "SELECT price FROM bids;"
    )
    assert shell.mistakes == 0
    assert "epoch_rows = 1" in said
    assert "3 rows in " in said


def test_a_drop_and_a_limit(work: Path) -> None:
    said, shell = typed(".open bids bids.csv", ".limit 1", "SELECT price FROM bids;", "DROP STREAM bids;", ".tables")
    assert shell.mistakes == 0
    assert "2 more rows" in said
    assert "nothing is declared" in said
    assert typed(".limit many")[1].mistakes == 1


def test_each_statement_is_timed_while_timing_is_on(work: Path) -> None:
    said, shell = typed(
        ".open bids bids.csv", ".timing on", "SELECT 1; SELECT price FROM bids;", ".timing off", "SELECT 2;"
    )
    assert shell.mistakes == 0
    found = re.findall(r"^timing: (\d+\.\d{3}) s, (\d+\.\d{3}) s of CPU$", said, re.M)
    assert len(found) == 2
    # The time of a statement has in it that of its results, which is shown with two digits.
    shown = re.findall(r"^[13] rows? in (\d+\.\d\d) s$", said, re.M)
    assert len(shown) == 3
    for (spent, computed), seconds in zip(found, shown, strict=False):
        assert float(spent) >= float(seconds) - 0.005 and float(computed) > 0
    # A statement that is refused is timed too.
    said, shell = typed(".timing on", "SELECT nothing FROM nowhere;")
    assert shell.mistakes == 1 and said.count("timing: ") == 1
    said, shell = typed(".timing maybe")
    assert shell.mistakes == 1 and ".timing on, or .timing off" in said


def test_rows_that_took_no_part_are_named(work: Path) -> None:
    (work / "bids.csv").write_text(BIDS + "3,x,2024-01-01 00:00:03\n")
    said, _ = typed(
        "CREATE STREAM b (item BIGINT, price DOUBLE, ts TIMESTAMP) WITH (format='csv', path='bids.csv', time='ts');",
        "SELECT price FROM b;",
    )
    assert "3 rows in " in said
    assert "1 bad rows of b took no part: bad" in said


def test_quit_leaves_at_once(work: Path) -> None:
    said, _ = typed(".quit", ".help")
    assert said == ""


@pytest.mark.parametrize(
    ("text", "statements", "rest"),
    [
        ("SELECT 1; SELECT 2", ["SELECT 1"], " SELECT 2"),
        ("SELECT ';' FROM s;", ["SELECT ';' FROM s"], ""),
        ("-- a; b\nSELECT 1;", ["-- a; b\nSELECT 1"], ""),
        ("/* ; */ x;;", ["/* ; */ x"], ""),
        ("SELECT 'it''s;", [], "SELECT 'it''s;"),
        ('SELECT "a;b" FROM s;', ['SELECT "a;b" FROM s'], ""),
    ],
)
def test_statements_end_at_semicolons_of_their_own(text: str, statements: list[str], rest: str) -> None:
    assert split(text) == (statements, rest)


def test_columns_are_inferred_from_every_format(work: Path) -> None:
    times = pa.array([0, 1_000_000], pa.timestamp("us"))
    Path("p/day=2024-01-01/shop=north").mkdir(parents=True)
    parquet.write_table(
        pa.table({"n": pa.array([1, 2], pa.int32()), "at": times, "tags": [["x"], ["y"]], "_ts": times}),
        "p/day=2024-01-01/shop=north/0.parquet",
    )
    found = declaration("p", "p")
    assert render(found.statement) == (
        "CREATE STREAM p (n INT, at TIMESTAMP, tags STRING[], day DATE, shop STRING) WITH (format = 'parquet', path = 'p', time = 'at')"
    )
    assert [text.split()[0] for text in found.left_out] == ["_ts"]
    Path("j.jsonl").write_text(
        '{"a": 1, "noted": "2024-01-01 00:00:00.5", "b": "x"}\n{"a": 2, "noted": null, "b": "y"}\n'
    )
    assert render(declaration("j", "j.jsonl").statement) == (
        "CREATE STREAM j (a BIGINT, noted TIMESTAMP, b STRING) WITH (format = 'jsonl', path = 'j.jsonl', time = 'noted')"
    )
    with gzip.open("t.tsv.gz", "wt") as file:
        file.write("word\tnumber\nx\t1\n")
    assert render(declaration("t", "t.tsv.gz").statement) == (
        "CREATE TABLE t (word STRING, number BIGINT) WITH (format = 'csv', path = 't.tsv.gz', delimiter = 'tab')"
    )


def test_an_opened_file_can_be_read(work: Path) -> None:
    """What was inferred fits what the readers make of the file, compressed or not."""
    Path("j.jsonl").write_text(
        '{"a": 1, "ts": "2024-01-01 00:00:00.5", "b": {"c": 1}}\n{"a": 2, "ts": "2024-01-01 00:00:01", "b": null}\n'
    )
    with gzip.open("t.tsv.gz", "wt") as file:
        file.write("a\tname\n1\tone\n2\ttwo\n")
    said, shell = typed(".open j j.jsonl", ".open t t.tsv.gz", "SELECT j.a, t.name FROM j, t WHERE j.a = t.a;")
    assert shell.mistakes == 0
    assert "2 rows in " in said and "one" in said and "two" in said


def test_lines_that_are_no_objects_are_left_out_of_the_guess(work: Path) -> None:
    """Arrow's parser ends the process where the first value is `null`."""
    Path("n.jsonl").write_text('null\n7\n{"a": 1, "b": 1.5}\n{"a": 2,\n')
    assert render(declaration("n", "n.jsonl").statement) == (
        "CREATE TABLE n (a BIGINT, b DOUBLE) WITH (format = 'jsonl', path = 'n.jsonl')"
    )
    Path("d.json").write_text('[\n null,\n {"a": 1,\n "c": "x"}]')
    assert "(a BIGINT, c STRING)" in render(declaration("d", "d.json").statement)
    Path("null.json").write_text("null\n")
    with pytest.raises(SourceProblem, match="cannot be inferred"):
        declaration("x", "null.json")


def test_what_cannot_be_inferred_is_refused(work: Path) -> None:
    Path("empty").mkdir()
    Path("notes.txt").write_text("x")
    Path("broken.parquet").write_text("x")
    for path, message in (
        ("empty", "holds no files"),
        ("notes.txt", "does not show its format"),
        ("broken.parquet", "cannot be inferred"),
    ):
        with pytest.raises(SourceProblem, match=message):
            declaration("x", path)
    assert stem("data/my bids.csv.gz") == "my_bids"


def test_on_a_terminal_lines_are_edited(work: Path) -> None:
    """A real terminal: the prompt, one statement over two lines, and the end of input."""
    leader, follower = pty.openpty()
    command = [str(Path(sys.executable).with_name("eddyline")), "shell", "bids.csv"]
    environment = {**os.environ, "TERM": "xterm", "XDG_STATE_HOME": str(work)}
    process = subprocess.Popen(
        command, stdin=follower, stdout=follower, stderr=follower, env=environment, close_fds=True
    )
    os.close(follower)
    said = b""

    def until(text: bytes) -> None:
        nonlocal said
        deadline = time.monotonic() + 240
        while text not in said and time.monotonic() < deadline:
            said += os.read(leader, 65_536)
        assert text in said

    until(b"eddyline>")
    os.write(leader, b"SELECT price FROM bids\r")
    until(b"...")
    os.write(leader, b"WHERE price > 100;\r")
    until(b"2 rows in ")
    os.write(leader, b".quit\r")
    assert process.wait(timeout=240) == 0
    os.close(leader)


def test_a_template_is_asked_at_the_end_of_the_files(work: Path) -> None:
    said, shell = typed(
        ".open bids bids.csv",
        "CREATE TEMPLATE t AS SELECT item, SUM(price) AS total FROM bids [RANGE 1 HOUR] GROUP BY item;",
        "REQUEST total FROM t WHERE item = 1 GROUP BY ();",
        "REQUEST total FROM t [RANGE 1 SECOND] GROUP BY ();",
        "EXPLAIN TEMPLATE t; EXPLAIN REQUEST total FROM t WHERE item = 1;",
        "CREATE REQUESTS asking (item BIGINT, ts TIMESTAMP) FOR t WITH (time = 'ts');",
        ".tables",
        "REQUEST total FROM u;",
    )
    assert "310.5" in said and "500.0" in said and said.count("1 row in ") == 2
    assert "grouping columns: item" in said and "fixes: item" in said
    assert "template t (item, total)" in said and "requests asking (item, total)" in said
    assert "there is no template u" in said and shell.mistakes == 1 and not shell.job.requests
