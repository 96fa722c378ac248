"""Reports that a job writes below its folder: their content, how often they come, the size of their history."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from eddyline import Session
from eddyline.errors import EddylineError
from eddyline.model.clock import WALL, WallClock
from eddyline.runtime.control.control import ControlFolder
from eddyline.runtime.control.control_record import add_record, drop_record
from eddyline.runtime.figures.report import Report
from eddyline.runtime.reporting import history
from eddyline.runtime.reporting.decisions import decisions
from eddyline.runtime.reporting.history import QueryLines, read_overview, read_query
from eddyline.runtime.reporting.places import ReportPlaces, read_json
from eddyline.runtime.reporting.samples import DeadSamples
from eddyline.settings import Settings
from eddyline.tuning import ReportTuning, Tuning

STREAMS = """CREATE STREAM a (k BIGINT, v STRING, ts TIMESTAMP) WITH (time = 'ts');
             CREATE STREAM b (k BIGINT, w BIGINT, ts TIMESTAMP) WITH (time = 'ts')"""
JOIN = "SELECT a.k, a.v, b.w FROM a [RANGE 10 SECONDS], b [RANGE 10 SECONDS] WHERE a.k = b.k"


def rows(first: int, count: int) -> list[tuple[Any, ...]]:
    return [(n % 7, f"<script>{n}</script>", n * 100_000) for n in range(first, first + count)]


def opened(folder: Path, **options: Any) -> Session:
    session = Session(checkpoint=str(folder), **options)
    session.execute(STREAMS)
    session.query("pairs", JOIN)
    session.query("sums", "SELECT k, COUNT(*) AS n FROM a [RANGE 5 SECONDS] GROUP BY k")
    return session


def fill(session: Session, first: int = 0, count: int = 50) -> None:
    session.push("a", rows(first, count))
    session.push("b", [(k, n, ts) for n, (k, _, ts) in enumerate(rows(first, count))])
    session.step()


#: A report after every epoch.
EAGER = Settings(tuning=Tuning(reports=ReportTuning(seconds=0.0, parts=0)))


def report(folder: Path) -> dict[str, Any]:
    found = read_json(ReportPlaces(str(folder)).report)
    assert isinstance(found, dict)
    return found


def events(folder: Path) -> list[dict[str, Any]]:
    return list(history.read_lines(ReportPlaces(str(folder)).decisions))


def test_the_last_report_has_the_figures_of_stats(tmp_path: Path) -> None:
    with opened(tmp_path / "job") as session:
        fill(session)
        session.run()
        stats = session.stats()
    found = report(tmp_path / "job")
    assert found["state_of_job"] == "ended" and found["engine"] == "embedded"
    assert not ReportPlaces(str(tmp_path / "job")).is_running()
    whole = json.loads(json.dumps(stats))
    del whole["plan"]
    assert found["stats"] == whole
    assert found["streams"]["a"] == {"newest": 4_900_000, "horizon": 4_900_000}
    assert set(found["stores"]) >= {"a", "b"} and sum(found["stats"]["results"].values()) > 0
    assert found["stage_seconds"].keys() == {"read", "step", "deliver"}
    assert os.stat(ReportPlaces(str(tmp_path / "job")).report).st_mode & 0o777 == 0o600


def test_at_most_one_report_a_second(tmp_path: Path) -> None:
    began = time.monotonic()
    with opened(tmp_path / "job") as session:
        for first in range(0, 1_000, 20):
            fill(session, first, 20)
        most = 1 + int(time.monotonic() - began)
        assert 1 <= report(tmp_path / "job")["sequence"] <= most
        assert ReportPlaces(str(tmp_path / "job")).is_running()


def test_decisions_are_the_difference_of_reports(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    with opened(folder, settings=EAGER) as session:
        fill(session)
        control = ControlFolder(str(folder))
        control.append(add_record("CREATE QUERY more AS SELECT v FROM a WHERE k = 1"))
        control.append(add_record("CREATE QUERY wrong AS SELECT nothing FROM a"))
        fill(session, 50)
        control.append(drop_record(["sums"]))
        fill(session, 100)
        fill(session, 200)
    assert [(e["kind"], e.get("query")) for e in events(folder)] == [
        ("start", None), ("added", "more"), ("refused", None), ("dropped", "sums"),
    ]  # fmt: skip
    assert "nothing" in next(e for e in events(folder) if e["kind"] == "refused")["reason"]
    with opened(folder, settings=EAGER) as session:
        session.step()
    assert [e["kind"] for e in events(folder)][4:] == ["start"]


def test_pages_see_plans_and_newest_rows_of_what_they_look_at(tmp_path: Path) -> None:
    places = ReportPlaces(str(tmp_path / "job"))
    with opened(tmp_path / "job", out=str(tmp_path / "out"), settings=EAGER) as session:
        fill(session)
        assert report(tmp_path / "job")["details"] == {}
        Path(places.wanted, "page.json").write_text(json.dumps(["pairs", "unknown"]))
        fill(session, 50)
        fill(session, 100)
        found = report(tmp_path / "job")
        assert found["details"].keys() == {"pairs"}
        assert found["details"]["pairs"]["plan"].startswith("query: pairs\ntree: (a b)")
        shape = found["details"]["pairs"]["shape"]
        assert [part["kind"] for part in shape["inputs"]] == ["join"]
        assert shape["inputs"][0]["key"] in found["stats"]["operators"]
        tail = found["tails"]["pairs"]
        assert tail["columns"] == ["k", "v", "w", "_ts"] and len(tail["rows"]) == 200
        os.utime(os.path.join(places.wanted, "page.json"), (1, 1))
        fill(session, 150)
        assert report(tmp_path / "job")["tails"] == {}


def test_a_tried_query_writes_no_files_and_goes_with_its_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, out = tmp_path / "job", tmp_path / "out"
    with opened(folder, out=str(out), settings=EAGER) as session:
        fill(session)
        ControlFolder(str(folder)).append(
            add_record("CREATE QUERY try_1 WITH (lease = 30) AS SELECT v FROM a WHERE k = 1")
        )
        fill(session, 50)
        fill(session, 100)
        assert report(folder)["tails"]["try_1"]["rows"][-1][0].startswith("<script>")
        assert not (out / "try_1").exists()
    with opened(folder, out=str(out), settings=EAGER) as session:
        # It survives a restart; then its lease ends, because no page renews it.
        fill(session, 150)
        assert "try_1" in report(folder)["names"]
        later = WALL.now() + 20
        monkeypatch.setattr(WallClock, "now", lambda clock: later)
        fill(session, 200)
        Path(ReportPlaces(str(folder)).lease("try_1")).touch()
        fill(session, 250)
        monkeypatch.setattr(WallClock, "now", lambda clock: later + 25)
        # The wall clock jumps: that neither ends the lease nor prolongs it.
        wall = time.time()
        monkeypatch.setattr(time, "time", lambda: wall + 86_400)
        fill(session, 300)
        fill(session, 350)
        assert "try_1" in report(folder)["names"]
        monkeypatch.setattr(time, "time", lambda: wall - 86_400)
        monkeypatch.setattr(WallClock, "now", lambda clock: later + 31)
        for first in range(400, 550, 50):
            fill(session, first)
        assert "try_1" not in report(folder)["names"]


def test_a_new_index_of_a_template_is_a_decision() -> None:
    known = {"names": [], "units": {}, "refused_plans": [], "control": {}, "started": 1.0, "engine": "embedded"}
    stats = {"migrations": [], "demand": {}, "epochs": 1}
    before = {**known, "stats": {**stats, "templates": {"t": {"index": "7+6 bits", "answered": 1}}}}
    now = {**known, "stats": {**stats, "templates": {"t": {"index": "13+0 bits", "answered": 9}}}}
    (found,) = decisions(before, now)
    assert (found["kind"], found["before"], found["after"]) == ("index", "7+6 bits", "13+0 bits")
    assert decisions(now, now) == []


def test_moves_and_listening_edges_are_decisions() -> None:
    known = {
        "names": ["q"],
        "units": {"q": "g1"},
        "refused_plans": [],
        "control": {},
        "started": 1.0,
        "engine": "embedded",
    }
    place = {"unit": "g1", "node": "a⋈b"}
    edge = {"state": "making everything", **place}
    move = {
        "epoch": 7, "queries": ["q"], "from": "(a b c)", "to": "((a b) c)", "reason": "cheaper", "cpu_before": 0.4, "cpu_after": 0.1,
        "seconds": 0.01, "rows_rebuilt": 5,
    }  # fmt: skip
    before = {**known, "stats": {"migrations": [], "demand": {"g1:a⋈b": edge, "0": {"g1:a⋈b": edge}}, "epochs": 1}}
    listening = {"state": "listening", **place}
    now = {
        **known,
        "stats": {"migrations": [move], "demand": {"g1:a⋈b": listening, "0": {"g1:a⋈b": listening}}, "epochs": 2},
    }
    now["refused_plans"] = [{"epoch": 8, "queries": ["q"], "tree": "(a (b c))", "reason": "no better"}]
    found = decisions(before, now)
    assert [one["kind"] for one in found] == ["migration", "kept", "demand", "demand"]
    assert found[0]["gain"] == 0.75 and found[2]["queries"] == ["q"] and "the join a⋈b on shard 0" in found[3]["text"]


def test_dead_rows_have_samples_by_reason(tmp_path: Path) -> None:
    with opened(tmp_path / "job", settings=EAGER) as session:
        fill(session)
        session.push("a", [(1, "late", 0)])
        session.step()
    dead = report(tmp_path / "job")["dead"]["a"]
    assert dead["columns"] == ["_reason", "_instant", "k", "v", "ts"]
    ((reason, found),) = dead["reasons"].items()
    assert reason.startswith("late") and found["count"] == 1 and found["samples"][0][3] == "late"
    assert abs(found["newest"] - time.time()) < 600


def test_dead_rows_of_one_kind_are_one_group_whatever_varies() -> None:
    """Each late row of a stream that moves names another horizon, each bad row another line and value."""
    dead = DeadSamples()
    for n in range(60):
        reasons = [
            f"late: event time lies before 2026-11-19T03:45:{n:02d}.125000, the newest seen minus lateness; missed by q{n}",
            f"bad: rows.jsonl line {n}: column item is declared as BIGINT and holds 'no; missed by\n {n}'",
            f"violation: ONCE(opened), trace {n}, 'x'",
            f"bad: f{n}.parquet cannot be read: Invalid: {n}",
        ]
        table = pa.table({"k": [str(n)] * 4, "_reason": reasons})
        dead.take({"bids": [table, table.slice(1, 1)]})
    found = dead.as_json()["bids"]
    assert {kind: one["count"] for kind, one in found["reasons"].items()} == {
        "late: event time lies before the instant, the newest seen minus lateness": 60,
        "bad: column item is declared as BIGINT and holds another value": 120,
        "violation: ONCE(opened)": 60,
        "bad: a file cannot be read": 60,
    }
    late = found["reasons"]["late: event time lies before the instant, the newest seen minus lateness"]
    assert len(late["samples"]) == 5
    assert late["samples"][-1][1:] == ["2026-11-19 03:45:59.125000", "59"] and "missed by q59" in late["samples"][-1][0]
    assert found["reasons"]["violation: ONCE(opened)"]["samples"][-1][1] is None


def test_kinds_without_end_are_one_kind_in_the_end() -> None:
    dead = DeadSamples()
    dead.take({"a": [pa.table({"k": ["x"] * 100, "_reason": [f"bad: a window of {n}" for n in range(100)]})]})
    found = dead.as_json()["a"]["reasons"]
    assert len(found) == 9 and found["other"]["count"] == 92 and len(found["other"]["samples"]) == 5


def test_a_failed_job_says_so(tmp_path: Path) -> None:
    with pytest.raises(EddylineError), opened(tmp_path / "job") as session:
        session.on_results("pairs", lambda table: 1 / 0)
        fill(session)
        session.run()
    found = report(tmp_path / "job")
    assert found["state_of_job"] == "failed" and "ZeroDivision" in found["error"]


def test_a_report_that_cannot_be_written_does_not_end_the_job(tmp_path: Path) -> None:
    with opened(tmp_path / "job", settings=EAGER) as session:
        fill(session)
        os.rename(tmp_path / "job" / "dashboard", tmp_path / "elsewhere")
        fill(session, 50)
        assert session.stats()["rows_in"]["a"] == 100


def test_an_hour_of_a_thousand_queries_fits_and_more_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "queries.jsonl")
    lines = QueryLines(path)
    figures = {f"a_query_with_a_name_{n}": (n * 1_000_003, n * 0.1237, n * 0.00123) for n in range(1_000)}
    for second in range(3_600):
        lines.note(1.7e9 + second, figures)
    size = sum(os.path.getsize(tmp_path / name) for name in os.listdir(tmp_path))
    assert size <= 42 << 20
    found = read_query(path, "a_query_with_a_name_999", 0.0, 10_000)
    assert len(found) == 360 and found[-1]["results"] == 999 * 1_000_003
    assert len(read_query(path, "a_query_with_a_name_1", 0.0, 100)) <= 100
    lines.note(1.7e9 - 86_400, figures)
    assert len(read_query(path, "a_query_with_a_name_999", 0.0, 10_000)) == 361, "the clock was set back"
    small = QueryLines(str(tmp_path / "small.jsonl"), room=200_000)
    for second in range(0, 3_600, 10):
        small.note(second, figures)
    assert sum(os.path.getsize(tmp_path / n) for n in os.listdir(tmp_path) if n.startswith("small")) <= 300_000
    assert read_query(str(tmp_path / "small.jsonl"), "a_query_with_a_name_7", 0.0, 1_000)[-1]["t"] == 3_590


def test_reports_that_are_dear_come_rarely(tmp_path: Path) -> None:
    rare = Settings(tuning=Tuning(reports=ReportTuning(seconds=0.0, parts=60)))
    with opened(tmp_path / "job", settings=rare) as session:
        fill(session)
        reporter = session.driver.reporter
        assert reporter is not None
        cheap = reporter.engine.report

        def dear() -> Report:
            until = time.thread_time() + 0.15
            while time.thread_time() < until:
                pass
            return cheap()

        reporter.engine.report = dear  # type: ignore[method-assign]
        reporter._due = 0.0
        fill(session, 50)
        # 150 ms of one core, and the process used at most all of them: the next report is not due for a long time.
        assert reporter._due - WALL.now() > 60 * 0.15 / (os.cpu_count() or 1) / 2
        before = report(tmp_path / "job")["sequence"]
        fill(session, 100)
        assert report(tmp_path / "job")["sequence"] == before


def test_a_history_that_was_cut_off_is_read(tmp_path: Path) -> None:
    path = tmp_path / "overview.jsonl"
    path.write_text('{"t": 1}\n{"t": 2}\n{"t": 3, "ro')
    assert read_overview(str(path), 2, 10) == [{"t": 2}]
