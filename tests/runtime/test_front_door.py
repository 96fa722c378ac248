"""What an embedded session has in common with one on Spark: sinks, numbered results, observations, refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from eddyline import Session
from eddyline.errors import BindingProblem, SourceProblem, Unsupported, UserError
from eddyline.runtime.figures.report import Report


@pytest.fixture
def session() -> Session:
    found = Session()
    found.execute("""
        CREATE STREAM bids (item BIGINT, price DOUBLE, ts TIMESTAMP) WITH (time='ts');
        CREATE QUERY dear AS SELECT item FROM bids WHERE price > 100;
    """)
    return found


def rows(*seconds: int) -> list[tuple[int, float, int]]:
    return [(second, 150.0, second * 1_000_000) for second in seconds]


def test_a_memory_sink_keeps_results(session: Session) -> None:
    session.execute(
        "CREATE SINK kept FOR dear WITH (format='memory'); CREATE SINK whole FOR ALL WITH (format='memory')"
    )
    session.push("bids", rows(1, 2))
    session.run()
    assert session.sink("kept").table().column("item").to_pylist() == [1, 2]
    assert session.sink("whole").table().column("_query").to_pylist() == ["dear", "dear"]


def test_numbered_results_come_once_per_epoch(session: Session) -> None:
    heard: list[tuple[list[int], int]] = []
    session.on_results(
        "dear", lambda table, epoch: heard.append((table.column("item").to_pylist(), epoch)), numbered=True
    )
    for second in (1, 2, 3):
        session.push("bids", rows(second))
        session.step()
    session.run()
    assert [items for items, _ in heard] == [[1], [2], [3]]
    assert [epoch for _, epoch in heard] == sorted({epoch for _, epoch in heard})


def test_observations_say_how_the_job_stands(session: Session) -> None:
    seen: list[Report] = []
    session.observe(lambda look: seen.append(look()))
    session.push("bids", rows(1, 2, 3))
    session.step()
    assert (seen[0].rows_in, seen[0].waiting, seen[0].frontier, seen[0].results) == (3, 1, 3_000_000, {"dear": 2})


@pytest.mark.parametrize("options", ["format='delta', path='x'", "format='kafka', topic='t', servers='h:1'"])
def test_formats_that_only_spark_writes(session: Session, options: str) -> None:
    with pytest.raises(SourceProblem) as refused:
        session.execute(f"CREATE SINK s FOR dear WITH ({options})")
    assert "--engine spark" in refused.value.hint
    # Nothing is left of it: the name is free.
    session.execute("CREATE SINK s FOR dear WITH (format='memory')")


def test_what_is_not_for_this_engine_says_where_it_is(session: Session, tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="Arrow tables"):
        session.queries["dear"].to_dataframe()
    with pytest.raises(BindingProblem, match="needs a schema"):
        session.stream("other", 7, time="ts")  # type: ignore[arg-type]
    session.push("bids", rows(1))
    session.step()
    with pytest.raises(UserError, match="before the first row"):
        session.execute("CREATE SINK late FOR dear WITH (format='memory')")


def test_a_failing_program_leaves_no_running_session(session: Session) -> None:
    with pytest.raises(ZeroDivisionError), session:
        session.start()
        _ = 1 / 0
    session.stop()


def test_one_group_without_rows() -> None:
    """ON CHANGE tells the table at the last moment before the frontier, EVERY begins with the first row of its
    streams."""
    session = Session()
    session.execute(
        """
        CREATE STREAM ticks (n INT, ts TIMESTAMP) WITH (time = 'ts');
        CREATE STREAM silent (n INT, ts TIMESTAMP) WITH (time = 'ts');
        CREATE QUERY changes AS SELECT COUNT(*) AS n FROM ticks;
        CREATE QUERY every AS SELECT COUNT(*) AS n FROM ticks EMIT EVERY 4 SECONDS;
        CREATE QUERY never AS SELECT COUNT(*) AS n FROM silent EMIT EVERY 4 SECONDS;
        """
    )
    session.push("ticks", [(1, "1970-01-01 00:00:10"), (2, "1970-01-01 00:00:13")])
    session.run(final=False)
    assert [(row["n"], row["_ts"].second) for row in session.queries["changes"].table().to_pylist()][-1] == (2, 13)
    assert [(row["n"], row["_ts"].second) for row in session.queries["every"].table().to_pylist()] == [(1, 12)]
    assert session.queries["never"].table().num_rows == 0


def test_options_for_experiments_have_a_prefix_and_old_names_are_named_once(session: Session) -> None:
    before = list(session.warnings)
    session.execute("CREATE QUERY one WITH (experiment.route = lottery) AS SELECT item FROM bids")
    assert session.warnings == before and session.job.catalog.queries["one"].settings.route == "lottery"
    session.execute(
        "SET route = lottery; CREATE QUERY two AS SELECT item FROM bids; CREATE QUERY three WITH (jit = bloom) AS SELECT item FROM bids"
    )
    assert session.warnings == [
        *before,
        "route = lottery is for experiments; write experiment.route",
        "jit = bloom is for experiments; write experiment.jit",
    ]
    assert session.job.catalog.queries["one"].settings == session.job.catalog.queries["two"].settings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("probe", "loop"), ("jit_control", "probes"), ("plan_search", "finder"), ("route", "lottery"), ("seed", 3),
        ("scheduler", "swf"), ("template_batch", "off"), ("template_tuning", "off"), ("jit", "bloom"), ("jit", "exact"),
    ],
)  # fmt: skip
def test_each_experiment_is_set_with_its_prefix_and_without(session: Session, name: str, value: str | int) -> None:
    before = list(session.warnings)
    session.execute(f"SET experiment.{name} = {value}; CREATE QUERY one AS SELECT item FROM bids")
    assert getattr(session.job.catalog.queries["one"].settings, name) == value and session.warnings == before
    session.execute(f"SET {name} = {value}; CREATE QUERY two AS SELECT item FROM bids")
    session.execute("CREATE TEMPLATE three AS SELECT item, COUNT(*) AS n FROM bids [ROWS 10] GROUP BY item")
    assert getattr(session.job.catalog.queries["two"].settings, name) == value
    assert session.warnings == [*before, f"{name} = {value} is for experiments; write experiment.{name}"]


def test_only_an_option_changes_how_the_process_keeps_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[bool] = []
    monkeypatch.setattr("eddyline.session.keep_freed_memory", lambda: calls.append(True))
    for keep in (False, True):
        with Session(keep_memory=keep) as session:
            session.execute(
                "CREATE STREAM s (a BIGINT, ts TIMESTAMP) WITH (time = 'ts'); CREATE QUERY q AS SELECT a FROM s"
            )
            session.push("s", [(1, 1_000_000)])
            session.run()
        assert calls == [True] * keep
