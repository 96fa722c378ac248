"""Reports: each one is made between two changes of the job, whichever thread reads it; observers are a list."""

from __future__ import annotations

import threading
import time
from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from typing import Any

import pytest

from eddyline import Session
from eddyline.runtime.figures import figures
from eddyline.runtime.figures.figures import Figure
from eddyline.runtime.figures.publication import Publication
from eddyline.runtime.figures.report import Report

#: The keys of `--stats` without Spark: programs read them.
KEYS = {
    "elapsed_s", "epochs", "epoch_seconds", "epoch_times", "rows_in", "late", "bad", "results", "partials_produced", "probes",
    "probes_shared", "visited", "peak_stored_rows", "stored_rows", "peak_state_bytes", "state_bytes", "spilled_bytes", "response",
    "null_results", "frontier", "frontiers", "plan", "migrations", "operators", "suspensions", "resumptions", "marks", "demand_checks",
    "suspended_peak", "partials_avoided", "demand", "patterns", "zones_skipped", "zones_passed", "conditions_avoided", "row_groups",
    "late_records",
    "punctuations", "violations", "purged_rows", "dropped_rows", "templates", "punctuations_out", "tables", "results_held", "kept_results",
    "dropped_results", "left_open", "unseen",
}  # fmt: skip


def streams(session: Session) -> None:
    for name in "ab":
        session.execute(f"CREATE STREAM {name} (k BIGINT, n BIGINT, ts TIMESTAMP) WITH (time='ts')")


def consistent(stats: dict[str, Any]) -> None:
    """Sums that are right between two epochs, and wrong within one."""
    results, operators = stats["results"], stats["operators"]
    assert (
        set(results)
        == set(stats["plan"])
        == {name.removeprefix("query ") for name in operators if name.startswith("query ")}
    )
    assert results["all"] == results["even"] + results["odd"]
    for name, count in results.items():
        assert operators[f"query {name}"]["rows_out"] == count
    joined = [figures for name, figures in operators.items() if name.startswith("g")]
    assert sum(f["rows_out"] for f in joined) == results["pairs"]
    assert min(stats["epochs"], 1000) == len(stats["epoch_seconds"])
    assert stats["rows_in"]["a"] >= results["all"] and stats["late"] == {"a": 0, "b": 0}


def test_a_thread_that_asks_all_the_time_sees_only_whole_epochs() -> None:
    session = Session()
    streams(session)
    session.query("all", "SELECT n FROM a")
    session.query("even", "SELECT n FROM a WHERE n % 2 = 0")
    session.query("odd", "SELECT n FROM a WHERE n % 2 = 1")
    session.query("pairs", "SELECT a.n FROM a [RANGE 20 MICROSECONDS], b [RANGE 20 MICROSECONDS] WHERE a.k = b.k")
    session.start()
    seen: list[int] = []
    failures: list[BaseException] = []
    done = threading.Event()

    def ask() -> None:
        try:
            while not done.is_set():
                stats = session.stats()
                consistent(stats)
                seen.append(stats["epochs"])
        except BaseException as problem:
            failures.append(problem)

    readers = [threading.Thread(target=ask) for _ in range(2)]
    for reader in readers:
        reader.start()
    at = 0
    limit = time.monotonic() + 240
    while (len(set(seen)) < 20 or at < 4000) and not failures and time.monotonic() < limit:
        rows = [(n % 5, n, n) for n in range(at, at + 100)]
        session.push("a", rows)
        session.push("b", rows)
        at += 100
        if at % 400 == 0:
            session.query(f"more{at}", f"SELECT n FROM a WHERE n > {at}")
        elif at % 400 == 200 and at > 400:
            session.drop(f"more{at - 200}")
        time.sleep(0.002)
    done.set()
    for reader in readers:
        reader.join(240)
    session.stop()
    assert not failures, failures
    assert len(set(seen)) >= 20 and seen[-1] >= seen[0]


def test_the_keys_of_stats() -> None:
    with Session() as session:
        streams(session)
        session.query("q", "SELECT a.n FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.k = b.k")
        session.push("a", [(1, 1, 1)])
        session.step()
        assert set(session.stats()) == KEYS


def test_a_feature_adds_its_figure_with_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(figures.FURTHER, "streams", Figure(lambda pipeline: len(pipeline.intakes), max))
    with Session() as session:
        streams(session)
        session.query("q", "SELECT n FROM a")
        assert session.stats()["streams"] == 2
    assert figures.merged_further([{"streams": 2}, {"streams": 3}, {}]) == {"streams": 3}


def test_observers_are_called_in_order_and_see_frozen_reports() -> None:
    with Session() as session:
        streams(session)
        session.query("q", "SELECT n FROM a")
        heard: list[tuple[str, Report]] = []
        session.observe(lambda look: heard.append(("first", look())))
        session.observe(lambda look: heard.append(("second", look())))
        session.push("a", [(1, 1, 1), (1, 2, 2)])
        session.step()
        session.push("a", [(1, 3, 3)])
        session.step()
        assert [name for name, _ in heard] == ["first", "second"] * 2
        assert [report.rows_in for _, report in heard] == [2, 2, 3, 3]
        assert heard[0][1].results == {"q": 1} and not heard[0][1].plans
        for field in fields(Report):
            with pytest.raises(FrozenInstanceError):
                setattr(heard[0][1], field.name, None)


def test_a_callback_sees_the_report_before_its_epoch(tmp_path: Path) -> None:
    with Session() as session:
        streams(session)
        session.query("q", "SELECT n FROM a")
        seen: list[int] = []
        session.on_results("q", lambda table: seen.append(session.stats()["epochs"]))
        session.stats()
        session.push("a", [(1, 1, 1), (1, 2, 2)])
        session.step()
        assert seen == [0] and session.stats()["epochs"] == 1


def test_a_reader_waits_for_the_change_at_hand_and_not_for_the_next() -> None:
    numbers = iter(range(100))
    publication = Publication(lambda: next(numbers))  # type: ignore[arg-type, return-value]
    assert publication.now() == 0 and publication.now() == 0, "nothing has changed"
    inside, go, found = threading.Event(), threading.Event(), list[object]()

    def change() -> None:
        with publication.change():
            inside.set()
            go.wait(240)
        with publication.change():
            while not found:
                time.sleep(0.001)

    changing = threading.Thread(target=change)
    changing.start()
    inside.wait(240)
    reading = threading.Thread(target=lambda: found.append(publication.now()))
    reading.start()
    while not publication._readers:
        time.sleep(0.001)
    go.set()
    reading.join(240)
    changing.join(240)
    assert found == [1]
