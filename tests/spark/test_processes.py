"""Processes of this machine as a conductor: any query over any number of shards, whichever of them is killed.

EDDYLINE_CONDUCTOR=processes has any suite of several shards without Spark run over them.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from eddyline.errors import DataProblem, StateProblem, Unsupported
from eddyline.language import bind_script
from eddyline.language.own_functions import declared
from eddyline.model.datatypes import BIGINT
from eddyline.plan.shards.shares import route_all
from eddyline.runtime.sharded.batch import BatchDocument, FilePiece
from eddyline.runtime.sharded.conducting import InProcess
from eddyline.runtime.sharded.job.layout import JobLayout, PackedLayout
from eddyline.runtime.sharded.job.shipped import Shipped
from eddyline.runtime.sharded.output.parcels import Parcel, opened
from eddyline.runtime.sharded.phases import Phases
from eddyline.runtime.sharded.shard.pipeline import ShardPipeline
from eddyline.runtime.sharded.workers.conducting import MOST_LOST, Processes
from tests.fault.test_sharded_matrix import Strikes, check, count, life
from tests.fault.test_sharded_matrix import right as right
from tests.property.compare import differences, report
from tests.property.strategies import random_case
from tests.seeds import cases, first_seed
from tests.spark.conducted import CONDUCTOR, PROCESSES, own_processes
from tests.spark.material import write_files
from tests.spark.sharded import run_sharded
from tests.spark.simulated import run_simulated

FIRST = first_seed(7)


@pytest.fixture
def over_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CONDUCTOR, PROCESSES)


@pytest.mark.property
def test_shards_of_processes_equal_the_oracle(over_processes: None) -> None:
    for seed in range(FIRST, FIRST + cases(24)):
        case = random_case(Random(seed))
        found = differences(case, run_sharded(case, 1 + seed % 5, seed))
        assert not found, f"random_case(Random({seed})) over {1 + seed % 5} shards\n{report(case, found)}"


@pytest.mark.property
def test_drivers_and_processes_die(over_processes: None) -> None:
    for seed in range(FIRST, FIRST + cases(16)):
        case = random_case(Random(seed))
        found = differences(case, run_simulated(case, 1 + seed % 4, Random(seed), 0.3))
        assert not found, f"random_case(Random({seed})), Random({seed})\n{report(case, found)}"


def test_a_part_of_the_matrix(over_processes: None, tmp_path: Path, right: dict[str, list[str]]) -> None:
    """The driver dies at operations of its own; those of processes end with a kill."""
    operations = count(tmp_path / "whole", right)
    random = Random(first_seed(2))
    for at in sorted(random.sample(range(1, operations + 1), cases(24))):
        strikes = Strikes(at, at + random.randrange(1, 40))
        check(life(tmp_path / str(at), strikes, random.choice((1, 2, 3))), right, f"{at}: {strikes.said}")


JOB = """
CREATE STREAM a (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = '{0}/a', time = 'ts', lateness = '5 milliseconds');
CREATE QUERY pairs AS SELECT x.v AS xv, y.v AS yv FROM a [RANGE 20 MILLISECONDS] x, a [RANGE 20 MILLISECONDS] y WHERE x.k = y.k;
CREATE QUERY sums AS SELECT k, date_trunc('second', ts) AS s, SUM(v) AS v FROM a GROUP BY k, date_trunc('second', ts) EMIT ON CLOSE;
"""
SHARDS = 3


class Deadly(ShardPipeline):
    """Ends its process as often as the file in its checkpoint says."""

    @classmethod
    def open(cls, layout, header, load):
        path = Path(layout.checkpoint, "deaths")
        left = int(path.read_text())
        if left:
            path.write_text(str(left - 1))
            os.kill(os.getpid(), signal.SIGKILL)
        return super().open(layout, header, load)


@pytest.fixture
def phases(tmp_path: Path) -> Phases:
    return made(tmp_path, "ck")


def made(folder: Path, checkpoint: str, text: str = "") -> Phases:
    write_files(folder / "a", ["0.parquet", "1.parquet", "2.parquet"], 200)
    job = bind_script((text or JOB).format(folder))
    routing = route_all(job.queries, [s.name for s in job.streams], {}, SHARDS)
    layout = JobLayout(
        tuple(job.streams), tuple(job.queries), routing, SHARDS, str(folder / checkpoint), settings=job.settings
    )
    return Phases(PackedLayout.of(layout))


def batch(phases: Phases, folder: Path) -> BatchDocument:
    names = [f"{number}.parquet" for number in range(3)]
    pieces = [
        FilePiece("a", n, name, str(folder / "a" / name), (folder / "a" / name).stat().st_size, n == 2)
        for n, name in enumerate(names)
    ]
    return BatchDocument(0, phases.packed.digest, tuple(pieces), ({"closing": True},))


def results(parcels: list[Parcel]) -> Iterator[str]:
    for parcel in parcels:
        if parcel.kind == "result":
            yield from (f"{parcel.name} {row}" for row in opened(parcel.path, parcel.blob).to_pylist())


def test_pieces_are_read_by_processes(phases: Phases, tmp_path: Path) -> None:
    right = sorted(results(InProcess(made(tmp_path, "other")).run(batch(made(tmp_path, "other"), tmp_path))))
    parcels = Processes(phases, 2, own_processes()).run(batch(phases, tmp_path))
    assert sorted(results(parcels)) == right and len(right) > 600
    assert sorted(parcel.shard for parcel in parcels if parcel.kind == "note") == [*range(SHARDS)]


def test_packets_do_not_pass_through_the_process_that_conducts(phases: Phases, tmp_path: Path) -> None:
    passed = []
    write_files(tmp_path / "a", ["0.parquet", "1.parquet", "2.parquet"], 20_000)
    whole = batch(phases, tmp_path)
    read = JOB.replace(
        "x.v AS xv, y.v AS yv FROM a [RANGE 20 MILLISECONDS] x", "x.v AS xv, y.v AS yv FROM a [RANGE 1 MICROSECOND] x"
    )
    for lends in (False, True):
        phases = made(tmp_path, f"ck{lends}", read)
        write_files(tmp_path / "a", ["0.parquet", "1.parquet", "2.parquet"], 20_000)
        conductor = Processes(phases, 2, own_processes())
        conductor.processes.lends = lends
        before = conductor.processes.passed
        parcels = conductor.run(replace(whole, layout=phases.packed.digest, control=()))
        made_here = sum(len(parcel.blob or b"") for parcel in parcels)
        passed.append(conductor.processes.passed - before - made_here)
    # Each packet goes in and out. What is left are documents, layouts and places.
    assert passed[0] > 2 * 60_000 * 3 * 8 > 20 * passed[1]


@pytest.mark.parametrize("deaths", [MOST_LOST, MOST_LOST + 1])
def test_the_third_loss_of_a_batch_ends_the_job(phases: Phases, tmp_path: Path, deaths: int) -> None:
    (tmp_path / "ck" / "deaths").write_text(str(deaths))
    conductor = Processes(replace(phases, engine=Deadly), 1, own_processes())
    if deaths <= MOST_LOST:
        assert [*results(conductor.run(batch(phases, tmp_path)))]
        return
    with pytest.raises(StateProblem, match="batch 0 has ended 3 processes") as problem:
        conductor.run(batch(phases, tmp_path))
    assert "shard 0" in problem.value.detail and "0.parquet" in problem.value.detail
    # And the next one runs.
    assert [*results(conductor.run(batch(phases, tmp_path)))]


def test_errors_of_tasks_are_those_of_the_engine(tmp_path: Path) -> None:
    phases = made(tmp_path, "ck", "SET on_late = 'error';" + JOB)
    conductor, whole = Processes(phases, 2, own_processes()), batch(phases, tmp_path)
    newest = conductor.run(replace(whole, pieces=(replace(whole.pieces[2], is_last=False),), control=()))
    before = {note.shard: json.loads(note.blob or b"")["state"][0] for note in newest if note.kind == "note"}
    with pytest.raises(DataProblem, match="is late"):
        conductor.run(replace(whole, number=1, pieces=whole.pieces[:1], before=before))


def test_a_function_that_cannot_travel_is_refused_by_name(phases: Phases, tmp_path: Path) -> None:
    job = bind_script("")
    own = declared("twice", [("x", BIGINT)], BIGINT, "#1", "off", job.settings, job.catalog)
    packed = replace(phases.packed, functions=Shipped(((own, lambda x: 2 * x),)))
    with pytest.raises(Unsupported, match="function twice cannot go to another process"):
        Processes(replace(phases, packed=packed), 2, own_processes()).run(batch(phases, tmp_path))
