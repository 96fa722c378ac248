"""The commands: `run --dashboard`, `dashboard --job`, `top --job`."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from eddyline import Session
from eddyline.cli.__main__ import main
from eddyline.dashboard.feed import Feed
from eddyline.dashboard.metrics import metrics
from eddyline.dashboard.views import features, overview, shares
from eddyline.runtime.reporting.places import ReportPlaces
from tests import forks
from tests.dashboard.asking import Client

JOB = """CREATE STREAM bids (item BIGINT, price DOUBLE, ts TIMESTAMP) WITH (format = 'jsonl', path = 'bids', time = 'ts');
         CREATE QUERY dear AS SELECT item FROM bids WHERE price > 100;"""


@pytest.fixture
def ended(tmp_path: Path) -> Path:
    """The folder of a job that has ended."""
    with Session(checkpoint=str(tmp_path / "state")) as session:
        session.execute("CREATE STREAM bids (item BIGINT, price DOUBLE, ts TIMESTAMP) WITH (time = 'ts')")
        session.query("dear", "SELECT item FROM bids WHERE price > 100")
        session.push("bids", [(n, 90.0 + n, n * 1_000_000) for n in range(30)])
        session.run()
    return tmp_path / "state"


def test_a_dashboard_beside_a_job_or_after_it(ended: Path) -> None:
    command = [sys.executable, "-m", "eddyline", "dashboard", "--job", str(ended)]
    process = forks.Command(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line.startswith("dashboard: http://127.0.0.1:") and "/?token=" in line
        client = Client(line.removeprefix("dashboard: ").strip())
        found = client.get("/api/overview")
        assert (
            found["state_of_job"] == "ended"
            and not found["running"]
            and found["results"] == 19
            and found["rows_in"] == {"bids": 30}
        )
        status, said = client.post("/api/try", {"sql": "SELECT item FROM bids"})
        assert status == 400 and "has stopped" in said["error"]["message"]
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(240) == 0
        process.stdout.close()


def test_top_prints_the_job(ended: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "--job", str(ended), "--once"]) == 0
    said = capsys.readouterr().out
    assert "embedded job, ended, 1 queries" in said and "dear" in said and "bids" in said and "30" in said


def test_a_key_ends_top(ended: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    leader, follower = pty.openpty()
    monkeypatch.setenv("FORCE_COLOR", "1")  # what is printed goes to a terminal, says Rich
    with open(follower, encoding="ascii") as keys:
        monkeypatch.setattr(sys, "stdin", keys)
        pressed = threading.Timer(0.3, lambda: os.write(leader, b"q"))
        pressed.start()
        assert main(["top", "--job", str(ended)]) == 0
        pressed.join()
    os.close(leader)
    assert "1 queries" in capsys.readouterr().out


def test_mistakes_have_hints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "job.sql").write_text(JOB)
    for command in (
        ["dashboard", "--job", str(tmp_path / "nothing")],
        ["top", "--job", str(tmp_path / "nothing")],
        ["run", str(tmp_path / "job.sql"), "--dashboard", "nowhere"],
        ["run", str(tmp_path / "job.sql"), "--dashboard", "0.0.0.0:0"],
    ):
        assert main(command) == 2, command
        said = capsys.readouterr().err
        assert said.startswith("error: ") and "hint: " in said, said


def test_an_extra_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ended: Path
) -> None:
    monkeypatch.setattr("eddyline.dashboard.server.find_spec", lambda name: None)
    assert main(["dashboard", "--job", str(ended)]) == 2
    assert "eddyline[dashboard]" in capsys.readouterr().err


def test_metrics_say_that_a_process_has_gone_without_an_end(ended: Path) -> None:
    path = Path(ReportPlaces(str(ended)).report)
    for state, one in (("ended", 0.0), ("running", 1.0)):
        path.write_text(json.dumps({**json.loads(path.read_text()), "state_of_job": state, "sequence": int(one)}))
        feed = Feed(str(ended))
        feed.refresh()
        text = metrics(feed).decode()
        assert f'eddyline_failed{{part="process"}} {one}' in text and "eddyline_up 0.0" in text


def test_the_report_of_an_earlier_version_has_metrics_too(ended: Path) -> None:
    path = Path(ReportPlaces(str(ended)).report)
    found = json.loads(path.read_text())
    path.write_text(json.dumps({key: one for key, one in found.items() if key not in ("histograms", "memory_budget")}))
    feed = Feed(str(ended))
    feed.refresh()
    text = metrics(feed).decode()
    assert 'eddyline_rows_total{stream="bids"} 30.0' in text and "eddyline_epoch_seconds" not in text


def test_views_of_the_newest_report(ended: Path) -> None:
    feed = Feed(str(ended))
    assert feed.refresh() and not feed.refresh()
    seen = overview(feed)
    assert seen["held_by"] is None and seen["queries"] == 1
    assert feed.document is not None and len(shares(feed.document)) == 1
    assert features({"rows_in": {"a": 1}, "zones_skipped": 7, "patterns": {}, "books": {"b": {"n": 1}}}) == {
        "zones_skipped": 7,
        "books": {"b": {"n": 1}},
    }
