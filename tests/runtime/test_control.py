"""Queries that are added to and dropped from a running job through its control folder."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline import Session
from eddyline.errors import BindingProblem, Unsupported, UserError
from eddyline.language import bind_script
from eddyline.runtime.control.control import ControlFolder, apply_record, planned_job, replay
from eddyline.runtime.control.control_record import add_record, drop_record
from eddyline.runtime.recovery.catalog_text import catalog_text

STREAMS = """
CREATE STREAM "odd name" (k BIGINT, "select" STRING, at TIMESTAMP) WITH (time='at', lateness='1500 milliseconds', idle='2 minutes');
CREATE STREAM s (k BIGINT, n BIGINT, ts TIMESTAMP) WITH (format='memory', time='ts', sequence='n');
CREATE TABLE names (k BIGINT, name STRING) WITH (format='parquet', path='it''s.parquet');
"""
JOB = (
    STREAMS
    + "SET seed = 7; CREATE QUERY a WITH (probe = 'loop') AS SELECT k FROM s WHERE k > 1; CREATE SINK t FOR a WITH (format='drop');"
)


def rows(*values: tuple[int, int]) -> pa.Table:
    ts = pa.array([ts * 1_000_000 for _, ts in values], pa.timestamp("us"))
    return pa.table({"k": [k for k, _ in values], "n": [ts for _, ts in values], "ts": ts})


def test_the_catalog_as_text_says_the_same_again() -> None:
    job = bind_script(JOB.replace('"odd name"', "odd"))
    again = bind_script(catalog_text(job))
    assert again.streams == job.streams and again.tables == job.tables and again.sinks == job.sinks
    assert again.settings == job.settings
    assert [(q.name, q.where, q.settings) for q in again.queries] == [
        (q.name, q.where, job.queries[0].settings) for q in job.queries
    ]


def test_records_are_numbered_and_whole(tmp_path: Path) -> None:
    folder = ControlFolder(str(tmp_path))
    assert [folder.append(drop_record(["a"])), folder.append(add_record("x"))] == [0, 1]
    assert list(folder.records(0)) == [{"op": "drop", "queries": ["a"]}, {"op": "add", "sql": "x"}]
    assert list(folder.records(1)) == [{"op": "add", "sql": "x"}] and not folder.has(2)
    assert sorted(p.name for p in (tmp_path / "control").iterdir()) == ["000000000000.json", "000000000001.json"]


def test_a_record_is_carried_out_whole_or_not_at_all() -> None:
    job = bind_script(STREAMS.replace('"odd name"', "odd"))
    good = "SET seed = 3; CREATE QUERY q AS SELECT k FROM s; CREATE SINK z FOR q WITH (format='drop');"
    with pytest.raises(BindingProblem):
        apply_record(job, add_record(good + "CREATE QUERY r AS SELECT nothing FROM s"))
    assert not job.queries and not job.sinks and job.settings.seed == 0
    change = apply_record(job, add_record(good))
    assert [q.settings.seed for q in change.added] == [3] and job.settings.seed == 0
    with pytest.raises(BindingProblem):
        apply_record(job, drop_record(["q", "unknown"]))
    assert [q.name for q in job.queries] == ["q"]
    dropped = apply_record(job, drop_record(["Q"])).dropped
    assert [(q.name, [s.name for s in sinks]) for q, sinks in dropped] == [("q", ["z"])] and not job.queries


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE STREAM x (ts TIMESTAMP) WITH (time='ts')",
        "DROP QUERY a",
        "CREATE QUERY q AS SELECT k FROM s; CREATE SINK everything FOR ALL WITH (format='drop')",
        "CREATE SINK more FOR a WITH (format='drop')",
    ],
)
def test_what_a_running_job_does_not_take(sql: str) -> None:
    with pytest.raises(Unsupported):
        apply_record(bind_script(JOB.replace('"odd name"', "odd")), add_record(sql))


def test_a_job_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no job"):
        planned_job(ControlFolder(str(tmp_path)))


def test_replay_passes_over_what_was_refused() -> None:
    job = bind_script(STREAMS.replace('"odd name"', "odd"))
    changes = replay(
        job, [add_record("CREATE QUERY q AS SELECT x FROM s"), add_record("CREATE QUERY r AS SELECT k FROM s")]
    )
    assert [q.name for change in changes for q in change.added] == ["r"]


# ---- a job that is running


def start(tmp_path: Path, out: str = "out") -> Session:
    """A job over files that appear one by one: the part of each file is one epoch."""
    session = Session(out=str(tmp_path / out), checkpoint=str(tmp_path / "ck"), follow=True, keep_results=False)
    (tmp_path / "s").mkdir(exist_ok=True)
    session.execute(
        f"CREATE STREAM s (k BIGINT, n BIGINT, ts TIMESTAMP) WITH (format='parquet', path='{tmp_path}/s', time='ts');"
        "SET checkpoint_seconds = 1000; CREATE QUERY base AS SELECT k FROM s;"
        "CREATE QUERY pairs AS SELECT x.k, y.n FROM s [RANGE 1 MINUTE] x, s [RANGE 1 MINUTE] y WHERE x.k = y.k"
    )
    return session


def feed(tmp_path: Path, session: Session, number: int, *values: tuple[int, int]) -> None:
    taken = session.stats()["rows_in"]["s"]
    parquet.write_table(rows(*values), tmp_path / "s" / f"{number}.parquet")
    until(session, taken + len(values))


def until(session: Session, taken: int) -> None:
    """Step until so many rows have been read: a source lists its folder only from time to time."""
    deadline = time.monotonic() + 240
    while session.stats()["rows_in"]["s"] < taken and time.monotonic() < deadline:
        session.step()


def states(tmp_path: Path) -> dict[str, tuple[str, int | None, int | None]]:
    return {
        q["query"]: (q["state"], q["start"], q["stop"]) for q in ControlFolder(str(tmp_path / "ck")).state()["queries"]
    }


def written(tmp_path: Path, query: str) -> list[int]:
    return parquet.read_table(tmp_path / "out" / query).column("k").to_pylist()


ADDED = """
CREATE QUERY late AS SELECT k FROM s WHERE k >= 2;
CREATE QUERY late_pairs AS SELECT x.k, y.n FROM s [RANGE 1 MINUTE] x, s [RANGE 1 MINUTE] y WHERE x.k = y.k AND x.n > y.n;
"""


def test_added_queries_start_at_the_newest_row_and_dropped_ones_end_there(tmp_path: Path) -> None:
    session = start(tmp_path)
    folder = ControlFolder(str(tmp_path / "ck"))
    feed(tmp_path, session, 0, (2, 1), (3, 2))
    folder.append(add_record(ADDED))
    feed(tmp_path, session, 1, (2, 2), (2, 3), (2, 4))
    assert states(tmp_path)["late"] == ("running", 2_000_000, None)
    assert states(tmp_path)["base"] == ("running", None, None)
    folder.append(drop_record(["base", "late_pairs"]))
    feed(tmp_path, session, 2, (5, 5), (2, 6))
    assert states(tmp_path)["base"] == ("dropped", None, 4_000_000)
    assert states(tmp_path)["late_pairs"] == ("dropped", 2_000_000, 4_000_000)
    session.stop()
    assert written(tmp_path, "late") == [2, 2, 5]
    assert written(tmp_path, "base") == [2, 3, 2, 2, 2]
    assert written(tmp_path, "late_pairs") == [2]


def test_what_was_added_and_dropped_survives_a_crash(tmp_path: Path) -> None:
    session = start(tmp_path)
    folder = ControlFolder(str(tmp_path / "ck"))
    feed(tmp_path, session, 0, (2, 1), (3, 2))
    folder.append(add_record(ADDED))
    folder.append(drop_record(["base"]))
    feed(tmp_path, session, 1, (2, 3), (2, 4))
    before = states(tmp_path)
    # The process was killed: the next one repeats the records and rows after the last checkpoint.
    session._runner.abandon()
    again = start(tmp_path)
    until(again, 4)
    assert states(tmp_path) == before
    feed(tmp_path, again, 2, (7, 5), (2, 6), (1, 7))
    again.stop()
    third = start(tmp_path)
    assert sorted(third.pipeline.queries) == ["late", "late_pairs", "pairs"]
    third.stop()
    assert written(tmp_path, "late") == [2, 2, 7, 2]
    assert written(tmp_path, "base") == [2, 3]
    assert json.loads((tmp_path / "ck" / "checkpoint.json").read_text())["body"]["control"]["applied"] == 2


def test_derived_streams_are_added_and_dropped_by_records(tmp_path: Path) -> None:
    """A stream of two parts and its reader come, survive a crash, and go one after the other."""
    session = start(tmp_path)
    folder = ControlFolder(str(tmp_path / "ck"))
    feed(tmp_path, session, 0, (2, 1), (3, 2))
    both = "CREATE STREAM d AS SELECT k, n FROM s WHERE k > 1 UNION ALL SELECT k + 10, n FROM s;"
    folder.append(add_record(both + "CREATE QUERY over_d AS SELECT k FROM d WHERE n > 2"))
    feed(tmp_path, session, 1, (2, 3), (1, 4))
    assert states(tmp_path)["over_d"] == ("running", 2_000_000, None) and not any(
        name.startswith("_") for name in states(tmp_path)
    )
    session._runner.abandon()
    again = start(tmp_path)
    until(again, 4)
    feed(tmp_path, again, 2, (5, 5))
    with pytest.raises(BindingProblem, match="stream d is read by query over_d"):
        apply_record(planned_job(folder), drop_record(["d"]))
    folder.append(drop_record(["d"]))
    folder.append(drop_record(["over_d", "D"]))
    feed(tmp_path, again, 3, (6, 6), (7, 7))
    assert list(folder.state()["refused"]) == ["1"] and states(tmp_path)["over_d"] == ("dropped", 2_000_000, 5_000_000)
    again.stop()
    third = start(tmp_path)
    assert sorted(third.pipeline.queries) == ["base", "pairs"] and "d" not in third.job.catalog.streams
    third.stop()
    assert sorted(written(tmp_path, "over_d")) == [2, 5, 11, 12, 15]


def test_dropped_streams_that_are_still_read_survive_a_crash(tmp_path: Path) -> None:
    session = start(tmp_path)
    folder = ControlFolder(str(tmp_path / "ck"))
    folder.append(add_record("CREATE STREAM d AS SELECT k, n FROM s; CREATE STREAM e AS SELECT k, n FROM d"))
    folder.append(
        add_record(
            "CREATE QUERY over_e AS SELECT x.k FROM e [RANGE 10 SECONDS] x, s [RANGE 10 SECONDS] y WHERE x.n + 1 = y.n"
        )
    )
    feed(tmp_path, session, 0, (2, 1), (3, 2))
    folder.append(drop_record(["e", "over_e", "d"]))
    session.step()
    session.stop()
    again = start(tmp_path)
    feed(tmp_path, again, 1, (4, 3), (5, 4))
    again.stop()
    assert written(tmp_path, "over_e") == [2]
    third = start(tmp_path)
    assert sorted(third.pipeline.queries) == ["base", "pairs"]
    third.stop()


def test_a_record_that_was_not_taken_up_is_taken_up_at_the_next_start(tmp_path: Path) -> None:
    session = start(tmp_path)
    feed(tmp_path, session, 0, (2, 1), (3, 2))
    session.stop()
    ControlFolder(str(tmp_path / "ck")).append(add_record(ADDED))
    again = start(tmp_path)
    feed(tmp_path, again, 1, (4, 3), (4, 4))
    assert states(tmp_path)["late"] == ("running", 2_000_000, None)
    again.stop()
    assert written(tmp_path, "late") == [4]


def test_a_record_that_fails_in_the_job_is_refused_and_the_job_runs_on(tmp_path: Path) -> None:
    session = start(tmp_path)
    folder = ControlFolder(str(tmp_path / "ck"))
    feed(tmp_path, session, 0, (2, 1))
    (tmp_path / "blocked").write_text("a file where a folder should be")
    sql = "CREATE QUERY one AS SELECT k FROM s; CREATE QUERY two AS SELECT n FROM s;"
    sql += f"CREATE SINK f FOR two WITH (path='{tmp_path}/blocked/x')"
    folder.append(add_record(sql))
    feed(tmp_path, session, 1, (2, 3), (3, 4))
    assert "one" not in states(tmp_path) and "blocked" in folder.state()["refused"]["0"]
    session.stop()
    assert written(tmp_path, "base") == [2, 2]
