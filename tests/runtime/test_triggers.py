"""Which event runs which component: shown by EXPLAIN, changed while a job runs, kept over a restart."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from eddyline import Session
from eddyline.cli.__main__ import main
from eddyline.errors import UserError
from eddyline.model.triggers import (
    COMPONENTS,
    SinceLastRun,
    Trigger,
    is_due,
    propagate_triggers,
    purge_triggers,
    triggers_of,
)
from eddyline.operators.join.punctuations.policy import Punctuations
from eddyline.settings import Settings
from tests.spark.simulated import Simulated

SECOND = 1_000_000
SCRIPT = """
    CREATE STREAM a (x BIGINT, ts TIMESTAMP) WITH (time = 'ts', remember = '1 day');
    CREATE STREAM b (x BIGINT, ts TIMESTAMP) WITH (time = 'ts', remember = '1 day');
    CREATE QUERY q WITH (propagate = 'on') AS SELECT a.x FROM a, b WHERE a.x = b.x;
"""


def sweeps(session: Session) -> int:
    return sum(
        one.sweeps for group in session.pipeline.groups.values() if (one := group.policy(Punctuations)) is not None
    )


def close(session: Session, first: int, count: int) -> None:
    """An epoch per key: it comes and is closed."""
    for n in range(first, first + count):
        for name in "ab":
            session.push(name, [{"x": n, "ts": n * SECOND}])
            session.punctuate(name, f"x = {n}")
        session.step()


def triggers_line(session: Session) -> str:
    return next(line for line in session.explain("q").splitlines() if line.startswith("triggers: "))


def test_every_component_has_its_events() -> None:
    found = triggers_of("auto", "on", spills=True)
    assert tuple(found) == COMPONENTS
    assert all(found.values())
    assert not triggers_of("auto", "off", spills=False)["propagate"]
    assert is_due(purge_triggers("100"), SinceLastRun(punctuations=100)) and not is_due(
        purge_triggers("100"), SinceLastRun(punctuations=99)
    )
    assert is_due(purge_triggers("100"), SinceLastRun(asked=True)) and is_due(
        purge_triggers("auto"), SinceLastRun(idle=True, kept=9)
    )
    assert is_due(propagate_triggers("7"), SinceLastRun(new=7)) and not is_due(
        propagate_triggers("7"), SinceLastRun(new=6)
    )
    assert not is_due(propagate_triggers("2 seconds"), SinceLastRun(new=9, span=SECOND))
    assert str(Trigger("span", 2_500_000)) == "after 2.5 s of event time"


def test_a_running_job_gets_other_triggers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "job")
    session = Session(Settings(purge="eager"), checkpoint=folder)
    session.execute(SCRIPT)
    assert triggers_line(session) == (
        "triggers: purge after every punctuation, when asked, when nothing comes in; index when an eighth of the promises is new; "
        "propagate after every epoch; compact when half of the rows are gone"
    )
    close(session, 0, 4)
    assert sweeps(session) == 3
    assert main(["query", "set", "q", "purge=6", "propagate=4", "--job", folder]) == 0
    assert "set purge = 6, propagate = 4 of q" in capsys.readouterr().out
    before = session.queries["q"].punctuations().num_rows
    close(session, 4, 1)
    assert triggers_line(session).startswith("triggers: purge after 6 punctuations, when asked")
    counts = []
    for n in range(5, 13):
        close(session, n, 1)
        counts.append(session.queries["q"].punctuations().num_rows)
    assert sweeps(session) < 3 + 8
    assert [count for count in counts if count] == [4, 4] and before == 3
    session.stop()

    again = Session(Settings(purge="eager"), checkpoint=folder)
    again.execute(SCRIPT)
    close(again, 13, 1)
    assert "propagate when 4 values are finished" in triggers_line(again)
    again.stop()


@pytest.mark.parametrize("words", [["epoch_rows=5"], ["purge"], ["purge=soon"], ["propagate=off"]])
def test_what_cannot_change(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "job")
    session = Session(checkpoint=folder)
    session.execute(SCRIPT)
    close(session, 0, 1)
    if words == ["propagate=off"]:
        with pytest.raises(UserError, match="cannot change whether values are announced"):
            session.pipeline.triggers.change("q", {"propagate": "off"})
        return
    assert main(["query", "set", "q", *words, "--job", folder]) == 2
    assert "hint" in capsys.readouterr().err


def test_joins_look_when_nothing_comes_in() -> None:
    session = Session()
    session.execute(SCRIPT)
    close(session, 0, 9)
    assert sweeps(session) == 0
    before = sum(stream.store.live for stream in session.pipeline.stores())
    session.pipeline.rest()
    assert sweeps(session) == 1
    assert sum(stream.store.live for stream in session.pipeline.stores()) < before


def test_shards_get_other_triggers(tmp_path: Path) -> None:
    job = Simulated(
        SCRIPT.replace("WITH (propagate = 'on')", ""), str(tmp_path), 2, Random(3), settings=Settings(purge="eager")
    )
    schema = pa.schema([("x", pa.int64()), ("ts", pa.timestamp("us"))])

    def batch(n: int) -> None:
        job.run({name: pa.Table.from_pylist([{"x": n, "ts": n * SECOND}], schema) for name in "ab"}, crashes=0.3)

    batch(0)
    job.folder.append({"op": "set", "query": "q", "settings": {"purge": "50"}})
    for n in range(1, 5):
        batch(n)
        job.settle(crashes=0.3)
    assert job.driver.roster.ledger.refused == {}
    assert all('"purge": "50"' in json.dumps(header) for header in job.headers())
    job.close()
