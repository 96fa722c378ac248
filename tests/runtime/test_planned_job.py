"""A process that needs one query of many binds that query and no other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from eddyline import Session
from eddyline.cli.running.query import listed
from eddyline.dashboard.console import JobConsole
from eddyline.errors import BindingProblem
from eddyline.language import job as language_job
from eddyline.runtime.control.control import ControlFolder, apply_record, planned_job
from eddyline.runtime.control.control_record import add_record, drop_record
from eddyline.runtime.recovery.catalog_text import catalog_text
from eddyline.state.sealed import sealed

STREAM = "CREATE STREAM s (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (time = 'ts');"
TOPS = "CREATE QUERY tops AS SELECT k, max(v) AS top FROM s [RANGE 1 SECOND] GROUP BY k EMIT EVERY 1 SECOND;"


def queries(first: int, count: int) -> str:
    """Some filters; every third has a sink of its own."""
    made = []
    for n in range(first, first + count):
        made.append(f"CREATE QUERY q{n} AS SELECT k FROM s WHERE v > {n} AND k <> 7; -- 'a; comment'\n")
        made += [f"CREATE SINK z{n} FOR q{n} WITH (format = 'drop');"] if n % 3 == 0 else []
    return "".join(made)


@contextmanager
def running(folder: Path, text: str) -> Iterator[Session]:
    with Session(checkpoint=str(folder), keep_results=False) as session:
        session.execute(STREAM + text)
        session.dashboard()
        session.push("s", [(1, 1, 0)])
        session.step()
        yield session


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names of the queries that are bound within."""
    bound: list[str] = []
    bind = language_job.bind_body

    def noted(name: str, *rest: object) -> object:
        bound.append(name)
        return bind(name, *rest)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(language_job, "bind_body", noted)
        yield bound


def test_a_page_binds_only_the_queries_that_it_asks_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(tmp_path, queries(0, 200)) as session:
        console = JobConsole(str(tmp_path))
        with counted(monkeypatch) as bound:
            tried = console.attempt("SELECT v FROM s WHERE v = 3")
        assert bound == tried["queries"]
        session.step()
        with counted(monkeypatch) as bound:
            assert console.drop(["Q7"])["queries"] == ["q7"]
        # The query that is tried has a record that is not folded yet.
        assert set(bound) == {"q7", *tried["queries"]}
        session.step()
        assert "q7" not in planned_job(console.control).catalog.queries


def test_what_records_have_added_is_not_bound_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One record with many queries is folded at once, and each of its queries is bound when it is first read."""
    with running(tmp_path, queries(0, 3)) as session:
        console = JobConsole(str(tmp_path))
        console.add(queries(3, 100))
        session.step()
        assert console.control.waiting(0) == [] and len(console.control.folded()[1].added) == 100
        with counted(monkeypatch) as bound:
            console.drop(["q20", "q1"])
        # The query of each sink is looked up among all queries that a record added.
        assert {"q1", "q20"} <= set(bound) and len(bound) <= 2 + 34
        session.step()
        assert sorted(planned_job(console.control).names) == sorted(f"q{n}" for n in range(103) if n not in (1, 20))


def test_the_planned_job_is_the_job(tmp_path: Path) -> None:
    with running(tmp_path, queries(0, 20) + TOPS) as session:
        console = JobConsole(str(tmp_path))
        console.add("CREATE QUERY late AS SELECT s.v FROM s JOIN LATEST tops ON s.k = tops.k;" + queries(20, 5))
        console.drop(["q3", "q21"])
        session.step()
        assert catalog_text(planned_job(console.control)) == catalog_text(session.job)
        assert {line["query"] for line in listed(console.control) if line["state"] == "running"} == set(
            session.job.names
        )


@pytest.mark.parametrize(
    "content", [None, b"", b"{}", b'{"crc32": "00000000", "body": {}}\n', sealed({"format": 99}), sealed([])]
)
def test_without_the_places_of_queries_the_whole_text_is_bound(tmp_path: Path, content: bytes | None) -> None:
    with running(tmp_path, queries(0, 5)):
        control = ControlFolder(str(tmp_path))
        places = tmp_path / "control" / "parts.json"
        assert len(control.parts(control.catalog())) == 5
        places.unlink() if content is None else places.write_bytes(content)
        assert control.parts(control.catalog()) == [] and len(planned_job(control).queries) == 5


def test_places_of_another_text_do_not_count(tmp_path: Path) -> None:
    with running(tmp_path, queries(0, 5)):
        control = ControlFolder(str(tmp_path))
        (tmp_path / "catalog.sql").write_text(STREAM + "CREATE QUERY other AS SELECT k FROM s;")
        assert planned_job(control).names == ("other",)


def test_an_added_query_whose_stream_has_gone_is_not_there(tmp_path: Path) -> None:
    with running(tmp_path, "CREATE STREAM t (k BIGINT, ts TIMESTAMP) WITH (time = 'ts');" + queries(0, 1)) as session:
        JobConsole(str(tmp_path)).add("CREATE QUERY gone AS SELECT k FROM t;" + queries(1, 64))
        session.step()
    (tmp_path / "catalog.sql").write_text(STREAM + queries(0, 1))
    control = ControlFolder(str(tmp_path))
    with pytest.raises(BindingProblem, match="no query gone"):
        apply_record(planned_job(control), drop_record(["gone"]))
    assert apply_record(planned_job(control), add_record("CREATE QUERY Gone AS SELECT v FROM s")).names == ["Gone"]
    assert "gone" not in {query.name for query in planned_job(control).queries}


def test_what_a_deferred_query_reads_is_not_dropped(tmp_path: Path) -> None:
    derived = "CREATE STREAM d AS SELECT k, v FROM s WHERE v > 1; CREATE QUERY above AS SELECT k FROM d;"
    with running(tmp_path, derived):
        job = planned_job(ControlFolder(str(tmp_path)))
        with pytest.raises(BindingProblem, match="read by query above"):
            apply_record(job, drop_record(["d"]))
        assert apply_record(job, drop_record(["d", "above"])).names == ["above", "d"]


def test_names_of_a_statement_mean_nothing_to_the_query_that_it_joins(tmp_path: Path) -> None:
    """The statement has a table `s` of its own; the deferred query reads the stream `s`."""
    with running(tmp_path, TOPS):
        job = planned_job(ControlFolder(str(tmp_path)))
        text = "CREATE QUERY q AS WITH s2 AS (SELECT k AS j, v FROM s) SELECT s2.v FROM s2 JOIN LATEST tops ON s2.j = tops.k"
        assert apply_record(job, add_record(text)).names == ["q"]
