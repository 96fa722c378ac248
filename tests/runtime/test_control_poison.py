"""Control records that are none: set aside with the reason, whichever engine, and the job, its restart and `eddyline
query` go on."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline import Session
from eddyline.cli.__main__ import main
from eddyline.runtime.control import control_record
from eddyline.runtime.control.control import FOLD_RECORDS, ControlFolder, planned_job
from eddyline.runtime.control.control_record import RefusedRecords, add_record, drop_record, record_name, record_numbers
from tests.spark.simulated import Simulated

Poison = Callable[[Path], object]


def unreadable(path: Path) -> None:
    path.write_text("nobody reads this")
    path.chmod(0)


def folder(path: Path) -> None:
    path.mkdir()
    (path / "inside").write_text("x")


POISON: dict[str, tuple[Poison, str]] = {
    "not JSON": (lambda path: path.write_text("{no"), "not JSON"),
    "empty": (lambda path: path.write_text(""), "not JSON"),
    "no text": (lambda path: path.write_bytes(b'{"op": "add", "sql": "\xff"}'), "not JSON"),
    "half of a character": (lambda path: path.write_text('{"op": "add", "sql": "\\ud800"}'), "no text"),
    "a list": (lambda path: path.write_text("[1]"), "JSON object"),
    "a number": (lambda path: path.write_text("7"), "JSON object"),
    "another operation": (lambda path: path.write_text('{"op": "explode"}'), "op"),
    "no operation": (lambda path: path.write_text("{}"), "op"),
    "a number for SQL": (lambda path: path.write_text('{"op": "add", "sql": 5}'), "text"),
    "no SQL": (lambda path: path.write_text('{"op": "add"}'), "text"),
    "names that are none": (lambda path: path.write_text('{"op": "drop", "queries": [{"a": 1}]}'), "text"),
    "one name": (lambda path: path.write_text('{"op": "drop", "queries": "base"}'), "text"),
    "nested": (lambda path: path.write_text("[" * 200_000), "nested"),
    "nested statements": (
        lambda path: path.write_text(json.dumps(add_record(f"CREATE QUERY q AS SELECT {'(' * 9_999}k FROM s"))),
        "",
    ),
    "a broken statement": (
        lambda path: path.write_text(json.dumps(add_record("CREATE QUERY q AS SELECT z FROM s"))),
        "z",
    ),
    "an unknown query": (lambda path: path.write_text(json.dumps(drop_record(["nobody"]))), "nobody"),
    "huge": (lambda path: path.write_text(json.dumps(add_record(" " * (17 << 20)))), "bytes"),
    "unreadable": (unreadable, ""),
    "a folder": (folder, "regular file"),
    "a FIFO": (lambda path: os.mkfifo(path), "regular file"),
    "a link": (lambda path: path.symlink_to("/etc/passwd"), ""),
    "a link to itself": (lambda path: path.symlink_to(path.name), ""),
}


def embedded(tmp_path: Path) -> Session:
    session = Session(out=str(tmp_path / "out"), checkpoint=str(tmp_path / "ck"), follow=True, keep_results=False)
    (tmp_path / "s").mkdir(exist_ok=True)
    session.execute(f"CREATE STREAM s (k BIGINT, ts TIMESTAMP) WITH (format='parquet', path='{tmp_path}/s', time='ts')")
    session.execute("CREATE QUERY base AS SELECT k FROM s")
    return session


def feed(tmp_path: Path, session: Session, number: int) -> None:
    ts = pa.array([number * 1_000_000], pa.timestamp("us"))
    parquet.write_table(pa.table({"k": pa.array([number], pa.int64()), "ts": ts}), tmp_path / "s" / f"{number}.parquet")
    taken = session.stats()["rows_in"]["s"]
    limit = time.monotonic() + 240
    while session.stats()["rows_in"]["s"] == taken and time.monotonic() < limit:
        session.step()
    session.step()


def reasons(tmp_path: Path) -> dict[int, str]:
    found = [json.loads(path.read_text()) for path in (tmp_path / "ck/control/refused").glob("*.reason.json")]
    return {one["record"]: one["reason"] for one in found}


def poisoned(tmp_path: Path, first: int) -> dict[int, str]:
    """One record of each kind, a good one behind each; what each reason must hold, by number."""
    control = ControlFolder(str(tmp_path / "ck"))
    expected = {}
    for number, (name, (make, reason)) in enumerate(POISON.items()):
        make(tmp_path / "ck/control" / record_name(first + 2 * number))
        expected[first + 2 * number] = reason
        query = f"good_{first}_{number}"
        record = tmp_path / "ck/control" / record_name(first + 2 * number + 1)
        record.write_text(json.dumps(add_record(f"CREATE QUERY {query} AS SELECT k FROM s WHERE k > {number}")))
        assert query in planned_job(control).catalog.queries, name
    return expected


def check_refused(tmp_path: Path, expected: dict[int, str]) -> None:
    found = reasons(tmp_path)
    assert sorted(found) == sorted(expected)
    assert all(part in found[number] and found[number] for number, part in expected.items())
    # Everything that was refused is kept beside its reason, and nothing of it is left among the records.
    assert record_numbers(str(tmp_path / "ck/control/refused")) == sorted(expected)
    assert record_numbers(str(tmp_path / "ck/control")) == []


@pytest.mark.parametrize("running", [True, False])
def test_poison_is_set_aside_and_an_embedded_job_goes_on(
    tmp_path: Path, running: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    session = embedded(tmp_path)
    feed(tmp_path, session, 1)
    if not running:
        session.stop()
    expected = poisoned(tmp_path, 0)
    (tmp_path / "more.sql").write_text("CREATE QUERY more AS SELECT k FROM s")
    assert main(["query", "add", str(tmp_path / "more.sql"), "--job", str(tmp_path / "ck")]) == 0
    assert main(["query", "list", "--json", "--job", str(tmp_path / "ck")]) == 0
    assert '"query": "more", "state": "pending"' in capsys.readouterr().out
    if not running:
        session = embedded(tmp_path)
    feed(tmp_path, session, 2)
    good = {f"good_0_{number}" for number in range(len(POISON))}
    assert set(session.pipeline.queries) == {"base", "more"} | good
    check_refused(tmp_path, expected)
    session.stop()
    # A restart finds the same job, and it takes more.
    again = embedded(tmp_path)
    assert main(["query", "drop", "more", "--job", str(tmp_path / "ck")]) == 0
    feed(tmp_path, again, 3)
    feed(tmp_path, again, 4)
    assert set(again.pipeline.queries) == {"base"} | good
    again.stop()
    assert parquet.read_table(tmp_path / "out/base").column("k").to_pylist() == [1, 2, 3]


@pytest.mark.parametrize("running", [True, False])
def test_poison_is_set_aside_and_a_job_on_spark_goes_on(tmp_path: Path, running: bool) -> None:
    text = "CREATE STREAM s (k BIGINT, ts TIMESTAMP) WITH (time='ts'); CREATE QUERY base AS SELECT k FROM s;"
    rows = [pa.table({"k": [i], "ts": pa.array([i * 1_000_000], pa.timestamp("us"))}) for i in range(4)]
    job = Simulated(text, str(tmp_path / "ck"), 2, Random(1))
    job.run({"s": rows[1]})
    expected = poisoned(tmp_path, 0)
    if not running:
        job.start()
    job.settle()
    job.run({"s": rows[2]})
    good = {f"good_0_{number}" for number in range(len(POISON))}
    assert {name for name, (state, _, _) in job.listed().items() if state == "running"} == {"base"} | good
    check_refused(tmp_path, expected)
    job.start()
    job.run({"s": rows[3]}, closing=True)
    assert job.table("base").column("k").to_pylist() == [1, 2, 3]
    job.close()


def test_the_job_passes_a_poisoned_record_before_it_is_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed in between: the checkpoint has passed the record, the next start sets it aside, and those behind it are
    not forgotten."""
    session = embedded(tmp_path)
    feed(tmp_path, session, 1)
    (tmp_path / "ck/control" / record_name(0)).write_text("{no")
    monkeypatch.setattr(ControlFolder, "fold", lambda *_: None)
    session.step()
    monkeypatch.undo()
    assert record_numbers(str(tmp_path / "ck/control")) == [0]
    session._runner.abandon()
    ControlFolder(str(tmp_path / "ck")).append(add_record("CREATE QUERY late AS SELECT k FROM s"))
    again = embedded(tmp_path)
    feed(tmp_path, again, 2)
    assert "not JSON" in reasons(tmp_path)[0] and set(again.pipeline.queries) == {"base", "late"}
    again.stop()


def test_refused_records_are_bounded(tmp_path: Path) -> None:
    (tmp_path / "control").mkdir()
    refused = RefusedRecords(str(tmp_path / "control"), kept=5)
    for number in range(12):
        folder(tmp_path / "control" / record_name(number)) if number % 2 else (
            tmp_path / "control" / record_name(number)
        ).write_text("x")
        refused.set_aside(number, "why not")
        refused.forget_oldest()
    assert record_numbers(refused.folder) == [7, 8, 9, 10, 11]
    assert len(os.listdir(refused.folder)) == 10


def test_a_huge_record_leaves_only_its_beginning(tmp_path: Path) -> None:
    (tmp_path / "control").mkdir()
    outside = tmp_path / "outside"
    outside.write_bytes(b"x" * (control_record.LARGEST_RECORD + 1))
    # A hard link: what it shares with another name stays untouched.
    os.link(outside, tmp_path / "control" / record_name(3))
    RefusedRecords(str(tmp_path / "control"), kept=5).set_aside(3, "too large")
    assert (tmp_path / "control/refused" / record_name(3)).stat().st_size == 64 << 10
    assert outside.stat().st_size == control_record.LARGEST_RECORD + 1


def test_a_record_behind_a_gap_is_taken(tmp_path: Path) -> None:
    session = embedded(tmp_path)
    feed(tmp_path, session, 1)
    (tmp_path / "ck/control" / record_name(40)).write_text(
        json.dumps(add_record("CREATE QUERY late AS SELECT k FROM s"))
    )
    limit = time.monotonic() + 240
    while "late" not in session.pipeline.queries and time.monotonic() < limit:
        session.step()
        time.sleep(0.05)
    assert "late" in session.pipeline.queries
    assert ControlFolder(str(tmp_path / "ck")).append(drop_record(["late"])) == 41
    session.stop()


def test_thousands_of_records_fold_into_the_queries_that_are_left(tmp_path: Path) -> None:
    """Restart and `query add` read no record that the checkpoint knows."""
    session = embedded(tmp_path)
    feed(tmp_path, session, 1)
    control = ControlFolder(str(tmp_path / "ck"))
    for number in range(300):
        control.append(
            add_record(
                f"CREATE QUERY q{number} AS SELECT k FROM s WHERE k > {number}; CREATE SINK s{number} FOR q{number} WITH (format='drop')"
            )
        )
        if number >= 2:
            control.append(drop_record([f"q{number - 2}"]))
    session.step()
    assert len(record_numbers(control.folder)) <= FOLD_RECORDS
    session.stop()
    again = embedded(tmp_path)
    assert set(again.pipeline.queries) >= {"base", "q298", "q299"}
    assert set(planned_job(control).catalog.queries) == {"base", "q298", "q299"}
    assert set(planned_job(control).catalog.sinks) == {"s298", "s299"}
    assert record_numbers(control.folder) == []
    assert control.append(drop_record(["base"])) == 598
    feed(tmp_path, again, 2)
    feed(tmp_path, again, 3)
    assert set(again.pipeline.queries) == {"q298", "q299"}
    again.stop()
    third = embedded(tmp_path)
    assert set(third.pipeline.queries) == {"q298", "q299"} == set(planned_job(control).catalog.queries)
    third.stop()
