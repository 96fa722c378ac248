"""What a session does on several cores, beside one that does it in one process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as parquet
import pytest

from eddyline import Session
from eddyline.cli.__main__ import main
from eddyline.errors import BindingProblem, EddylineWarning, Unsupported, UserError
from eddyline.runtime.sharded.output import delivery
from tests.cores.jobs import JOB, engines, results, write

SECOND = 1_000_000
STREAMS = """
CREATE STREAM a (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (time = 'ts', lateness = '2 seconds');
CREATE STREAM b (k BIGINT, w BIGINT, ts TIMESTAMP) WITH (time = 'ts');
CREATE TABLE names (k BIGINT, name VARCHAR) WITH (format = 'parquet', path = '{0}/names.parquet');
"""


def rows(first: int, last: int) -> list[tuple[Any, ...]]:
    return [(n % 5, n, n * SECOND + 10**15) for n in range(first, last)]


def both(folder: Path, what: Callable[[Session], Any]) -> Any:
    """What a program sees in one process, which it sees on two cores too."""
    found, before = [], engines()
    parquet.write_table(pa.table({"k": list(range(5)), "name": list("abcde")}), folder / "names.parquet")
    for cores in (None, 2):
        with Session(cores=cores) as session:
            session.execute(STREAMS.format(folder))
            found.append(what(session))
    assert found[0] == found[1]
    assert engines() <= before
    return found[0]


def sorted_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=str)


def test_pushed_rows_join_and_results_are_taken(tmp_path: Path) -> None:
    def what(session: Session) -> list[Any]:
        called: list[int] = []
        pairs = session.query(
            "pairs",
            "SELECT a.k AS k, v, w, name FROM a [RANGE 9 SECONDS], b [RANGE 9 SECONDS], names n "
            "WHERE a.k = b.k AND a.k = n.k",
        )
        session.on_results("pairs", lambda table: called.append(table.num_rows))
        seen: list[Any] = []
        for first in (0, 20, 40):
            session.push("a", rows(first, first + 20))
            session.push("b", rows(first, first + 20))
            seen.append(sorted_rows(pairs.take()))
        # A row that is late, one that does not fit, and a query that comes while the job runs.
        session.push("a", [(1, 1, 10**15)])
        session.push("a", [{"k": "x", "v": 3, "ts": 10**15 + 61 * SECOND}])
        later = session.query("later", "SELECT v FROM a WHERE k = 3")
        session.push("a", rows(60, 80))
        session.step()
        session.drop("pairs")
        session.push("b", rows(60, 80))
        session.run(final=False)
        letters = [(row["v"], row["_reason"].partition(":")[0]) for row in session.dead_letters("a").to_pylist()]
        return [seen, sum(called) > 0, sorted_rows(later.take()), later.start, sorted(letters, key=str)]

    found = both(tmp_path, what)
    assert all(found[0]) and found[1] and len(found[2]) == 4 and len(found[4]) == 2


def test_a_session_goes_on_after_a_run(tmp_path: Path) -> None:
    def what(session: Session) -> list[Any]:
        counted = session.query(
            "counted",
            "SELECT k, date_trunc('minute', ts) AS m, COUNT(*) AS n FROM a "
            "GROUP BY k, date_trunc('minute', ts) EMIT ON CLOSE",
        )
        seen = []
        for first in (0, 100):
            session.start()
            session.push("a", rows(first, first + 99))
            session.stop(final=False)
            with pytest.raises(UserError, match="the session has ended"):
                session.push("a", rows(0, 1))
            session.run(final=False)
            session.push("a", rows(first + 99, first + 100))
            seen.append(sorted_rows(counted.take()))
        return seen

    assert all(both(tmp_path, what))


def test_results_that_nobody_takes_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, 0)
    counted = []
    for cores in (None, 2):
        with Session(cores=cores, keep_results=False) as session:
            session.execute(JOB.format(tmp_path))
            if cores is not None:
                # Nor does the process read them that delivers them.
                monkeypatch.setattr(delivery, "opened_run", None)
            session.run(final=False)
            counted.append(session.stats()["results"])
    assert counted[0] == counted[1] and all(counted[0].values())


def test_requests_are_answered_while_the_job_runs(tmp_path: Path) -> None:
    def what(session: Session) -> list[Any]:
        session.execute("CREATE TEMPLATE t AS SELECT k, COUNT(*) AS n FROM a [RANGE 60 MINUTES] GROUP BY k")
        session.push("a", rows(0, 30))
        session.step()
        return sorted_rows(session.request("k, n FROM t"))

    assert both(tmp_path, what)


def doubled(values: pa.Array) -> pa.Array:
    return pc.multiply(values, 2)


def test_functions_go_by_name_or_by_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def what(session: Session) -> list[Any]:
        session.function("doubled", doubled, ["BIGINT"], "BIGINT")
        found = session.query("found", "SELECT doubled(v) AS v FROM a")
        session.push("a", rows(0, 30))
        session.run(final=False)
        return sorted_rows(found.take())

    assert len(both(tmp_path, what)) == 30

    def lambdas() -> list[Any]:
        with Session(cores=2) as session:
            session.execute(STREAMS.format(tmp_path))
            session.function("tripled", lambda values: pc.multiply(values, 3), ["BIGINT"], "BIGINT")
            found = session.query("found", "SELECT tripled(v) AS v FROM a")
            session.push("a", rows(0, 3))
            session.run(final=False)
            return sorted_rows(found.take())

    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(Unsupported, match="function tripled cannot go to another process"):
        lambdas()
    monkeypatch.setitem(sys.modules, "cloudpickle", pytest.importorskip("pyspark.cloudpickle"))
    assert [row[0] for row in lambdas()] == [0, 3, 6]


def test_a_run_that_leaves_open_what_is_open_says_so(tmp_path: Path) -> None:
    with Session(cores=2) as session:
        session.execute(STREAMS.format(tmp_path).rpartition("CREATE TABLE")[0])
        session.query("found", "SELECT k FROM a")
        with pytest.warns(EddylineWarning, match="leaves open what is open"):
            session.run()
        with pytest.raises(Unsupported, match="a run on several cores does not end its streams"):
            session.run(final=True)


def test_what_runs_is_not_declared_anew(tmp_path: Path) -> None:
    with Session(cores=2) as session:
        session.execute(JOB.format(tmp_path))
        with pytest.raises(BindingProblem, match="rows cannot be pushed to a"):
            session.push("a", rows(0, 1))
        with pytest.raises(UserError, match="does not exist"):
            session.run(final=False)


def test_explain_says_how_a_query_is_cut(tmp_path: Path) -> None:
    with Session(cores=3, checkpoint=str(tmp_path / "ck")) as session:
        session.execute(STREAMS.format(tmp_path))
        cut = session.query("cut", "SELECT a.k AS k FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.k = b.k")
        assert "cores: 3 processes share its 8 slices" in cut.explain()
        whole = session.query("whole", "SELECT k, v FROM a ORDER BY v DESC LIMIT 3 EMIT EVERY 1 SECOND")
        assert "cores: one process computes it, as " in whole.explain()


def test_the_command_runs_on_cores(tmp_path: Path) -> None:
    for number in range(2):
        write(tmp_path, number)
    (tmp_path / "job.sql").write_text(JOB.format(tmp_path))
    for out, more in (("one", ["--no-final"]), ("two", ["--cores", "2", "--checkpoint", str(tmp_path / "ck")])):
        command = ["run", str(tmp_path / "job.sql"), "--once", "--no-final", "--out", str(tmp_path / out), *more]
        assert main([*command, "--stats", str(tmp_path / f"{out}.json")]) == 0
    assert results(tmp_path / "one") == results(tmp_path / "two")
    assert "8" in (tmp_path / "two.json").read_text()
    assert main(["run", str(tmp_path / "job.sql"), "--once", "--cores", "none"]) == 2
    assert main(["run", str(tmp_path / "job.sql"), "--once", "--cores", "2", "--engine", "spark"]) == 2
