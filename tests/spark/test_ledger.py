"""A checkpoint goes on only with the job that it belongs to."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from eddyline.errors import CheckpointProblem
from eddyline.model.schema import Table
from eddyline.plan.shards.shares import route_all
from eddyline.runtime.sharded.job.ledger import CONTROL, FORMAT, Ledger, LedgerEntry, ledger_path
from eddyline.runtime.sharded.job.wholeness import check_whole
from eddyline.runtime.sharded.storage.heads import Head, Heads
from eddyline.state.sealed import read_sealed, write_sealed
from tests.spark.material import SCHEMA, equality, query, stream

STREAMS = [stream("a", 0), stream("b", 1)]
OLD = query("old", "a b", equality("a.k", "b.k"))
NEW = query("new", "a b", equality("a.v", "b.v"))


def written(tmp_path: Path) -> Ledger:
    ledger = Ledger.read(str(tmp_path))
    assert not ledger.exists and ledger.reconcile(STREAMS, [OLD], 4) == ["old"]
    ledger.route(["old"], route_all([OLD], ["a", "b"], {}, 4))
    ledger.write()
    return Ledger.read(str(tmp_path))


def test_queries_that_go_on_keep_their_routing(tmp_path: Path) -> None:
    ledger = written(tmp_path)
    assert ledger.reconcile(STREAMS, [NEW, OLD], 4) == ["new", "old"]
    assert set(ledger.records()) == {"old"} and ledger.initial == {"old"}
    assert route_all([NEW, OLD], ["a", "b"], {}, 4, ledger.records()).bits("old") == {"a": 0, "b": 0}
    assert ledger.queries["new"].state == "prepared"


def test_a_query_may_be_missing(tmp_path: Path) -> None:
    ledger = written(tmp_path)
    assert ledger.reconcile(STREAMS, [], 4) == []
    assert ledger.queries["old"].state == "dropping" and "old" in ledger.routed
    with pytest.raises(CheckpointProblem, match="still has results"):
        ledger.reconcile(STREAMS, [OLD], 4)
    ledger.queries["old"].final = True
    assert ledger.reconcile(STREAMS, [OLD], 4) == ["old"] and ledger.queries["old"].state == "prepared"


def test_what_control_brought_and_took_is_not_for_the_job_to_say(tmp_path: Path) -> None:
    ledger = written(tmp_path)
    ledger.queries["more"] = LedgerEntry("SELECT 1", origin=CONTROL)
    ledger.queries["old"].state, ledger.queries["old"].dropped_by, ledger.queries["old"].final = (
        "dropped",
        CONTROL,
        True,
    )
    assert ledger.reconcile(STREAMS, [OLD], 4) == []
    assert ledger.queries["more"].state == "running" and list(ledger.routed) == ["more"]


def test_a_changed_query_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointProblem, match="another text"):
        written(tmp_path).reconcile(STREAMS, [replace(OLD, text="SELECT 1")], 4)


def test_a_changed_stream_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointProblem, match="stream b"):
        written(tmp_path).reconcile([STREAMS[0], replace(STREAMS[1], lateness=5)], [OLD], 4)
    with pytest.raises(CheckpointProblem, match="not declared"):
        Ledger.read(str(tmp_path)).reconcile(STREAMS[:1], [], 4)


def test_another_number_of_shards_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointProblem, match="4 shards"):
        written(tmp_path).reconcile(STREAMS, [OLD], 8)


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    written(tmp_path)
    path = str(tmp_path / "eddyline" / "ledger.json")
    write_sealed(path, read_sealed(path, "the ledger") | {"format": 99})
    with pytest.raises(CheckpointProblem, match="format 99"):
        Ledger.read(str(tmp_path))


@pytest.mark.parametrize("body", [[], {}, "ledger", {"format": FORMAT}, {"format": FORMAT, "queries": [], "shards": 2}])
def test_a_ledger_of_another_form_is_refused(tmp_path: Path, body: object) -> None:
    written(tmp_path)
    write_sealed(ledger_path(str(tmp_path)), body)
    with pytest.raises(CheckpointProblem, match=r"ledger\.json") as refused:
        Ledger.read(str(tmp_path))
    assert "it held shards" in refused.value.detail and refused.value.hint


def test_a_table_that_is_missing_is_not_read_again(tmp_path: Path) -> None:
    ledger = written(tmp_path)
    table = Table("t", SCHEMA)
    os.remove(ledger.table(table, lambda _: pa.table({"k": [1]})).path)
    ledger.write()
    again = Ledger.read(str(tmp_path))
    with pytest.raises(CheckpointProblem, match="missing") as refused:
        again.table(table, lambda _: pa.table({"k": [2]}))
    assert "the rows of table t" in refused.value.detail
    again.forget_table("t")
    assert Ledger.read(str(tmp_path)).table(table, lambda _: pa.table({"k": [2]})).rows().to_pydict() == {"k": [2]}


@pytest.mark.parametrize(
    ("offsets", "commits", "saved", "missing"),
    [
        ([], [], False, ""),
        ([0], [], False, ""),
        ([0], [0], True, ""),
        ([3, 4], [3], True, ""),
        ([3, 4], [3, 4], True, ""),
        ([], [], True, "offsets/0"),
        ([], [4], True, "offsets/4"),
        ([3], [3, 4], True, "offsets/4"),
        ([0], [], True, ""),
        ([3, 4], [2], True, "commits/3"),
        ([3, 4], [], False, "commits/3"),
    ],
)
def test_offsets_and_commits_that_are_missing_are_named(
    tmp_path: Path, offsets: list[int], commits: list[int], saved: bool, missing: str
) -> None:
    written(tmp_path)
    for folder, numbers in (("offsets", offsets), ("commits", commits)):
        (tmp_path / folder).mkdir()
        for number in numbers:
            (tmp_path / folder / str(number)).write_text("v1")
    (tmp_path / "metadata").write_text("{}")
    for number in commits:
        Heads(str(tmp_path)).write(Head(number, "", "", {}, {}, []))
    if missing:
        with pytest.raises(CheckpointProblem, match=f"{missing} is missing"):
            check_whole(str(tmp_path), saved)
        return
    check_whole(str(tmp_path), saved)
    if commits:
        head = tmp_path / "eddyline" / "heads" / f"{commits[-1]:012d}.json"
        head.rename(tmp_path / "away")
        with pytest.raises(CheckpointProblem, match=f"{commits[-1]}.json is missing"):
            check_whole(str(tmp_path), saved)
        (tmp_path / "away").rename(head)
    if offsets:
        os.remove(tmp_path / "metadata")
        with pytest.raises(CheckpointProblem, match="metadata is missing"):
            check_whole(str(tmp_path), saved)
        os.remove(ledger_path(str(tmp_path)))
        with pytest.raises(CheckpointProblem, match=r"ledger\.json is missing"):
            check_whole(str(tmp_path), saved)


def test_static_tables_are_read_once(tmp_path: Path) -> None:
    ledger = written(tmp_path)
    table = Table("t", SCHEMA)
    first = ledger.table(table, lambda _: pa.table({"k": [1]}))
    again = ledger.table(table, lambda _: pa.table({"k": [2]}))
    assert first == again and again.rows().to_pydict() == {"k": [1]}


def test_a_stream_that_reads_another_folder_is_refused(tmp_path: Path) -> None:
    here = [stream("a", 0, tmp_path), stream("b", 1, tmp_path)]
    ledger = Ledger.read(str(tmp_path / "ck"))
    ledger.reconcile(here, [OLD], 4)
    ledger.write()
    again = Ledger.read(str(tmp_path / "ck"))
    again.reconcile([stream("a", 0, tmp_path, path=f"{tmp_path}//a/"), here[1]], [OLD], 4)
    with pytest.raises(CheckpointProblem, match="stream a is not the one") as refused:
        again.reconcile([stream("a", 0, tmp_path / "elsewhere"), here[1]], [OLD], 4)
    assert str(tmp_path / "elsewhere" / "a") in refused.value.detail
    with pytest.raises(CheckpointProblem, match="stream a is not the one"):
        again.reconcile([stream("a", 0, tmp_path, format="csv"), here[1]], [OLD], 4)
