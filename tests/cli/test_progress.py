"""What a running job shows: a live table on a terminal, plain lines elsewhere, a summary at the end."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from eddyline import Session
from eddyline.cli.__main__ import main
from eddyline.cli.progress import ProgressDisplay, instant_text


def running(console: Console, quiet: bool = False, seconds: float = 0.0) -> Session:
    """A session with one late row, whose every epoch is shown."""
    session = Session()
    session.execute("CREATE STREAM bids (item BIGINT, price DOUBLE, ts TIMESTAMP) WITH (time='ts')")
    session.query("dear", "SELECT item FROM (SELECT item, price FROM bids) b [RANGE 1 MINUTE] WHERE price > 100")
    with ProgressDisplay(quiet=quiet, console=console, seconds=seconds) as shown:
        session.observe(shown.observe)
        session.push("bids", [(1, 50.0, 0), (2, 150.0, 5_000_000)])
        session.step()
        session.push("bids", [(3, 150.0, 1_000_000), (4, 500.0, 6_000_000)])
        session.run(once=True)
    shown.summary(session.stats(), session.job.catalog.makers)
    return session


def test_plain_lines_where_there_is_no_terminal() -> None:
    output = io.StringIO()
    running(Console(file=output, width=300))
    lines = output.getvalue().splitlines()
    assert lines[0].startswith("rows 2 | rows/s ")
    assert "| frontier 1970-01-01 00:00:05.000 |" in lines[0]
    assert lines[0].endswith("| dear 0")
    assert any(line.startswith("4 rows in ") and "(" in line for line in lines)
    # The query behind the subquery is not named.
    assert "  dear: 2 results" in lines and "_dear" not in output.getvalue()
    assert "  1 late rows of bids went to the dead-letter output" in lines


def test_a_live_table_on_a_terminal() -> None:
    output = io.StringIO()
    running(Console(file=output, width=160, force_terminal=True, color_system=None))
    said = output.getvalue()
    for word in ("rows/s", "frontier", "state rows", "state MB", "results", "dear 2"):
        assert word in said
    assert "  dear: 2 results" in said


def test_quiet_says_nothing() -> None:
    output = io.StringIO()
    session = running(Console(file=output, width=160), quiet=True)
    assert output.getvalue() == ""
    assert session.stats()["results"]["dear"] == 2


def test_not_more_often_than_it_can_be_read() -> None:
    output = io.StringIO()
    running(Console(file=output, width=160), seconds=3600.0)
    assert "frontier" not in output.getvalue()
    assert "dear: 2 results" in output.getvalue()


def test_moments_outside_of_the_calendar_are_numbers() -> None:
    assert instant_text(None) == "-"
    assert instant_text(1_500_000) == "1970-01-01 00:00:01.500"
    assert instant_text(4 * 10**18) == str(4 * 10**18)


def test_a_template_says_how_many_requests_it_has_answered() -> None:
    output = io.StringIO()
    with Session() as session:
        session.execute(
            "CREATE STREAM s (k INT, ts TIMESTAMP) WITH (time = 'ts');"
            "CREATE TEMPLATE t AS SELECT k, COUNT(*) AS n FROM s [RANGE 1 HOUR] GROUP BY k;"
        )
        session.push("s", [(1, 0), (2, 1)])
        session.request(["n FROM t", "n FROM t GROUP BY ()"])
        ProgressDisplay(console=Console(file=output, width=160)).summary(session.stats())
    assert output.getvalue().splitlines()[-1] == "  t: 2 requests answered"


def test_a_resumed_run_tells_what_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s").mkdir()
    Path("job.sql").write_text(
        "CREATE STREAM s (k BIGINT, ts TIMESTAMP) WITH (format='csv', path='s', time='ts'); CREATE QUERY q AS SELECT k FROM s;"
    )
    shown = []
    # The second run reads three rows, of which one is late and one bad; the third reads none.
    for number, rows in enumerate((["1,1", "2,2"], ["3,5", "4,1", "x,6"], None)):
        if rows is not None:
            times = [f"{row.split(',')[0]},1971-01-01 00:00:0{row.split(',')[1]}" for row in rows]
            Path(f"s/{number}.csv").write_text("\n".join(["k,ts", *times, ""]))
        assert main(["run", "job.sql", "--once", "--checkpoint", "ck"]) == 0
        shown.append(capsys.readouterr().out)
    first, second, third = shown
    assert first.startswith("2 rows in ") and "  q: 2 results\n" in first and "before" not in first
    assert second.startswith("continuing from ck: 2 rows were read before, frontier 1971-01-01 00:00:02.000\n")
    assert "\n3 new rows in " in second and "; 2 rows were read before\n" in second
    assert "  q: 1 new results, 2 before\n" in second
    assert "  1 late rows of s went to" in second and "  1 bad rows of s went to" in second
    assert "\n0 new rows in " in third and "; 5 rows were read before\n" in third
    assert "  q: 0 new results, 3 before\n" in third and "dead-letter" not in third
