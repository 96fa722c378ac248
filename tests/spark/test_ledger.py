"""A checkpoint goes on only with the job that it belongs to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from eddyline.errors import CheckpointProblem
from eddyline.model.schema import Table
from eddyline.plan.shares import route_all
from eddyline.runtime.spark.job.ledger import CONTROL, Entry, Ledger
from eddyline.state.sealed import read_sealed, write_sealed
from tests.spark.material import SCHEMA, equality, query, stream

STREAMS = [stream("a", 0), stream("b", 1)]
OLD = query("old", "a b", equality("a.k", "b.k"))
NEW = query("new", "a b", equality("a.v", "b.v"))


def written(tmp_path: Path) -> Ledger:
    ledger = Ledger.read(str(tmp_path))
    assert not ledger.exists and ledger.settle(STREAMS, [OLD], 4) == ["old"]
    ledger.route(["old"], route_all([OLD], ["a", "b"], {}, 4))
    ledger.write()
    return Ledger.read(str(tmp_path))


def test_queries_that_go_on_keep_their_routing(tmp_path: Path) -> None:
    ledger = written(tmp_path)
    assert ledger.settle(STREAMS, [NEW, OLD], 4) == ["new", "old"]
    assert set(ledger.records()) == {"old"} and ledger.initial == {"old"}
    assert route_all([NEW, OLD], ["a", "b"], {}, 4, ledger.records()).bits("old") == {"a": 0, "b": 0}
    assert ledger.queries["new"].state == "prepared"


def test_a_query_may_be_missing(tmp_path: Path) -> None:
    ledger = written(tmp_path)
    assert ledger.settle(STREAMS, [], 4) == []
    assert ledger.queries["old"].state == "dropping" and "old" in ledger.routed
    with pytest.raises(CheckpointProblem, match="still has results"):
        ledger.settle(STREAMS, [OLD], 4)
    ledger.queries["old"].final = True
    assert ledger.settle(STREAMS, [OLD], 4) == ["old"] and ledger.queries["old"].state == "prepared"


def test_what_control_brought_and_took_is_not_for_the_job_to_say(tmp_path: Path) -> None:
    ledger = written(tmp_path)
    ledger.queries["more"] = Entry("SELECT 1", origin=CONTROL)
    ledger.queries["old"].state, ledger.queries["old"].dropped_by, ledger.queries["old"].final = "dropped", CONTROL, True
    assert ledger.settle(STREAMS, [OLD], 4) == []
    assert ledger.queries["more"].state == "running" and list(ledger.routed) == ["more"]


def test_a_changed_query_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointProblem, match="another text"):
        written(tmp_path).settle(STREAMS, [replace(OLD, text="SELECT 1")], 4)


def test_a_changed_stream_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointProblem, match="stream b"):
        written(tmp_path).settle([STREAMS[0], replace(STREAMS[1], lateness=5)], [OLD], 4)
    with pytest.raises(CheckpointProblem, match="not declared"):
        Ledger.read(str(tmp_path)).settle(STREAMS[:1], [], 4)


def test_another_number_of_shards_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointProblem, match="4 shards"):
        written(tmp_path).settle(STREAMS, [OLD], 8)


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    written(tmp_path)
    path = str(tmp_path / "eddyline" / "ledger.json")
    write_sealed(path, read_sealed(path, "the ledger") | {"format": 99})
    with pytest.raises(CheckpointProblem, match="format 99"):
        Ledger.read(str(tmp_path))


def test_static_tables_are_read_once(tmp_path: Path) -> None:
    ledger = written(tmp_path)
    table = Table("t", SCHEMA)
    first = ledger.table(table, lambda _: pa.table({"k": [1]}))
    again = ledger.table(table, lambda _: pa.table({"k": [2]}))
    assert first == again and again.rows().to_pydict() == {"k": [1]}


def test_a_stream_that_reads_another_folder_is_refused(tmp_path: Path) -> None:
    here = [stream("a", 0, tmp_path), stream("b", 1, tmp_path)]
    ledger = Ledger.read(str(tmp_path / "ck"))
    ledger.settle(here, [OLD], 4)
    ledger.write()
    again = Ledger.read(str(tmp_path / "ck"))
    again.settle([stream("a", 0, tmp_path, path=f"{tmp_path}//a/"), here[1]], [OLD], 4)
    with pytest.raises(CheckpointProblem, match="stream a is not the one") as refused:
        again.settle([stream("a", 0, tmp_path / "elsewhere"), here[1]], [OLD], 4)
    assert str(tmp_path / "elsewhere" / "a") in refused.value.detail
    with pytest.raises(CheckpointProblem, match="stream a is not the one"):
        again.settle([stream("a", 0, tmp_path, format="csv"), here[1]], [OLD], 4)
