"""When results become files: by age, size and stop, through crashes, and with the setting changed between runs."""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline.connectors.results.outbox import Outbox
from eddyline.connectors.results.output import result_files
from eddyline.connectors.results.sinks import ParquetSink
from eddyline.errors import CheckpointProblem, UserError
from eddyline.tuning import OutputTuning
from tests.seeds import cases, first_seed

SCHEMA = pa.schema([("k", pa.int64())])

PLAIN = OutputTuning()


class Job:
    """A driver with some sinks: epochs, checkpoints, a process that dies and one that follows it."""

    def __init__(
        self,
        tmp_path: Path,
        names: tuple[str, ...] = ("a", "b"),
        files: str = "auto",
        epoch: int = -1,
        out: str = "out",
        tuning: OutputTuning = PLAIN,
        named: dict[str, str] | None = None,
    ) -> None:
        self.path = tmp_path
        self.out = tmp_path / out
        self.box = Outbox(files, 2.0, str(tmp_path), tuning=tuning)
        self.sinks = {name: ParquetSink(str(self.out / name)) for name in names}
        for name, sink in self.sinks.items():
            self.box.adopt(sink, f"out/{name}")
            sink.open(SCHEMA)
        self.box.check(epoch, named)
        for sink in self.sinks.values():
            sink.truncate_after(epoch)
        self.box.recover(epoch, named)

    def epoch(self, number: int, now: float, closable: int | None = None, **values: list[int]) -> None:
        for name, keys in values.items():
            self.sinks[name].write(number, pa.table({"k": keys}, schema=SCHEMA))
        self.box.end_epoch(number, now, closable)

    def checkpoint(self, number: int, closable: int | None = None) -> dict[str, str]:
        self.box.flush(number, closable)
        named = self.box.names(number)
        self.box.committed(number if closable is None else closable)
        return named

    def stop(self, number: int) -> None:
        self.box.flush(number, last=True)
        assert self.box.names(number) == {}
        self.box.committed(number)
        for sink in self.sinks.values():
            sink.close()

    def files(self, name: str = "a", out: str | None = None) -> list[list[int]]:
        self.box._wait()
        folder = self.out if out is None else self.path / out
        return [parquet.read_table(path).column("k").to_pylist() for _, _, path in result_files(str(folder / name))]

    def keys(self, name: str) -> list[int]:
        return [k for file in self.files(name) for k in file]

    def segments(self) -> int:
        return len(list((self.path / "pending").glob("*.rows")))


def test_small_results_are_one_file_until_it_is_old(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.epoch(1, 10.0, a=[1])
    job.epoch(2, 11.9, a=[2])
    assert job.files() == []
    job.epoch(3, 12.0, b=[1])
    assert job.files() == [[1, 2]]
    # Age counts from the oldest row, also while nothing comes.
    job.box.end_epoch(3, 14.1)
    assert job.files("b") == [[1]]
    job.epoch(4, 15.0, a=[3])
    job.stop(4)
    assert job.files() == [[1, 2], [3]] and job.segments() == 0


def test_a_file_that_cannot_be_written_is_said_while_nothing_comes_and_its_rows_stay(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.epoch(1, 0.0, a=[1], b=[1])
    job.checkpoint(1)
    # What lies in the way of the file that follows: a full disk would do the same.
    shutil.rmtree(job.out / "a")
    (job.out / "a").write_text("in the way")
    with pytest.raises(UserError, match="results cannot be written"):
        for moment in range(1_000):
            # The first call queues the files, a later one raises the error of the file that failed.
            job.box.end_epoch(1, 10.0 + moment)
            assert not job.box.is_empty
            time.sleep(0.01)
    # Every call raises it: a checkpoint after these rows would lose them.
    for _ in range(2):
        with pytest.raises(UserError, match="results cannot be written"):
            job.checkpoint(1)
    assert job.segments() == 1
    (job.out / "a").unlink()
    again = Job(tmp_path, epoch=1)
    again.stop(1)
    assert again.files("a") == [[1]] and again.files("b") == [[1]] and again.segments() == 0


def test_each_epoch_has_a_file(tmp_path: Path) -> None:
    job = Job(tmp_path, files="each")
    for number in range(3):
        job.epoch(number, 0.0, a=[number])
    assert job.files() == [[0], [1], [2]]


def test_a_checkpoint_keeps_rows_that_are_in_no_file(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.epoch(1, 0.0, a=[1], b=[1])
    job.checkpoint(1)
    job.epoch(2, 0.5, a=[2])
    assert job.files() == [] and job.segments() == 1
    # The process dies: epoch 2 is made again, epoch 1 is in the checkpoint.
    again = Job(tmp_path, epoch=1)
    again.epoch(2, 100.0, a=[2])
    again.checkpoint(2)
    again.stop(2)
    assert again.files() == [[1, 2]] and again.files("b") == [[1]] and again.segments() == 0


def test_a_file_after_the_checkpoint_is_taken_back_with_the_rows_before_it(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.epoch(1, 0.0, a=[1])
    job.checkpoint(1)
    job.epoch(2, 5.0, a=[2])
    assert job.files() == [[1, 2]]
    again = Job(tmp_path, epoch=1)
    assert again.files() == []
    again.epoch(2, 5.0, a=[2])
    again.stop(2)
    assert again.files() == [[1, 2]]


def test_rows_of_batches_that_are_not_committed_are_in_no_file(tmp_path: Path) -> None:
    """As on Spark: what has been seen stays."""
    job = Job(tmp_path)
    job.epoch(0, 0.0, closable=-1, a=[0])
    job.checkpoint(0, closable=-1)
    job.epoch(1, 9.0, closable=0, a=[1])
    job.checkpoint(1, closable=0)
    assert job.files() == [[0]]
    again = Job(tmp_path, epoch=0)
    assert again.files() == [[0]] and not again.box._since
    again.epoch(1, 9.0, closable=0, a=[1])
    again.checkpoint(1, closable=0)
    again.stop(1)
    assert again.files() == [[0], [1]] and again.segments() == 0


def test_rows_of_the_first_batch_wait_for_its_commit(tmp_path: Path) -> None:
    """As on Spark, where files are closed by age before their batch is committed."""
    job = Job(tmp_path)
    job.epoch(0, 0.0, closable=-1, a=[0])
    job.checkpoint(0, closable=-1)
    for moment in (0.3, 100.0):
        job.box.end_epoch(-1, moment, closable=-1)
    assert job.files() == []
    job.box.end_epoch(0, 100.0, closable=0)
    assert job.files() == [[0]]


def test_large_results_are_files_of_their_own(tmp_path: Path) -> None:
    job = Job(tmp_path, tuning=OutputTuning(small_bytes=100))
    job.epoch(1, 0.0, closable=0, a=[1])
    job.checkpoint(1, closable=0)
    job.epoch(2, 0.1, closable=1, a=list(range(50)))
    job.checkpoint(2, closable=1)
    assert job.files() == [[1], list(range(50))]


def test_an_epoch_in_several_files_is_in_files_whole(tmp_path: Path) -> None:
    job = Job(tmp_path, tuning=OutputTuning(file_rows=4))
    job.epoch(1, 0.0, a=[0])
    for part in range(3):
        job.sinks["a"].write(2, pa.table({"k": [10 * part, 10 * part + 1]}, schema=SCHEMA))
    job.box.end_epoch(2, 0.1)
    job.checkpoint(2)
    assert job.files() == [[0], [0, 1, 10, 11], [20, 21]] and job.segments() == 0


def test_many_sinks_keep_their_files_open_longer(tmp_path: Path) -> None:
    names = tuple(f"q{number}" for number in range(10))
    job = Job(tmp_path, names, tuning=OutputTuning(files_per_second=1))
    for number in range(6):
        job.epoch(number, number * 1.9, **{name: [number] for name in names})
    assert not any(job.files(name) for name in names)
    job.epoch(6, 10.1, **{name: [6] for name in names})
    assert all(job.files(name) == [list(range(7))] for name in names)
    job.stop(6)


def test_rows_of_a_sink_that_the_job_no_longer_has_go_where_they_belonged(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.epoch(1, 0.0, a=[1], b=[2])
    job.checkpoint(1)
    again = Job(tmp_path, names=("a",), epoch=1)
    assert again.files("b") == [[2]]
    again.stop(1)
    assert again.files() == [[1]] and again.segments() == 0


def test_another_folder_for_results_gets_only_what_is_in_no_file(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.epoch(1, 0.0, a=[1], b=[1])
    job.checkpoint(1)
    job.box.close_up_to(1)
    job.epoch(2, 0.0, b=[2])
    job.checkpoint(2)
    again = Job(tmp_path, epoch=2, out="elsewhere")
    again.stop(2)
    assert job.files() == [[1]] and again.files() == [[]]
    assert job.files("b") == [[1]] and again.files("b") == [[2]]


def test_a_damaged_segment_is_named(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.epoch(1, 0.0, a=[1])
    job.checkpoint(1)
    (segment,) = (tmp_path / "pending").iterdir()
    content = segment.read_bytes()
    for damaged in (b"", content[:-9], content[:40] + bytes([content[40] ^ 1]) + content[41:]):
        segment.write_bytes(damaged)
        with pytest.raises(CheckpointProblem, match=segment.name) as told:
            Job(tmp_path, epoch=1)
        assert told.value.hint


def test_a_missing_and_an_exchanged_segment_are_named(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.epoch(1, 0.0, a=[1])
    job.checkpoint(1)
    job.epoch(2, 0.0, a=[2])
    named = job.checkpoint(2)
    first, second = sorted((tmp_path / "pending").iterdir())
    kept = first.read_bytes()
    first.unlink()
    with pytest.raises(CheckpointProblem, match=f"{first.name} is missing") as told:
        Job(tmp_path, epoch=2, named=named)
    assert told.value.hint and "in no file yet" in told.value.detail
    first.write_bytes(second.read_bytes())
    with pytest.raises(CheckpointProblem, match=f"{first.name} is damaged"):
        Job(tmp_path, epoch=2, named=named)
    first.write_bytes(kept)
    again = Job(tmp_path, epoch=2, named=named)
    again.stop(2)
    assert again.files() == [[1, 2]]


def test_a_segment_that_the_checkpoint_does_not_name_is_not_read(tmp_path: Path) -> None:
    """Its rows are in files that a program may have moved away."""
    job = Job(tmp_path)
    job.epoch(1, 0.0, a=[1])
    job.checkpoint(1)
    job.box.close_up_to(1)
    assert job.box.names(1) == {} and job.segments() == 1
    shutil.rmtree(job.out)
    again = Job(tmp_path, epoch=1, named={})
    again.stop(1)
    assert again.files() == [[]] and again.segments() == 0


def test_a_lost_commit_finds_the_rows_before_its_batch(tmp_path: Path) -> None:
    """As on Spark: the run has ended, its last file has rows of two batches, and the commit of the second one is
    removed."""
    job = Job(tmp_path)
    job.epoch(0, 0.0, closable=-1, a=[0])
    before = job.checkpoint(0, closable=-1)
    job.epoch(1, 0.1, closable=0, a=[1])
    job.checkpoint(1, closable=0)
    job.box.close_up_to(1)
    assert job.files() == [[0, 1]] and job.box.names(1) == {}
    again = Job(tmp_path, epoch=0, named=before)
    assert again.files() == []
    again.epoch(1, 0.1, closable=0, a=[1])
    again.stop(1)
    assert again.files() == [[0, 1]]


def test_what_a_run_left_before_its_first_checkpoint_is_forgotten(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.epoch(3, 0.0, a=[1])
    job.box.flush(3)
    again = Job(tmp_path, epoch=-1)
    again.stop(0)
    assert again.files() == [[]] and again.segments() == 0


@pytest.mark.parametrize("run", range(cases(30)))
@pytest.mark.parametrize("spark", [False, True])
def test_random_lives(tmp_path: Path, run: int, spark: bool) -> None:
    """Epochs, checkpoints, crashes, restarts with the other setting: each row is in one file, in order, whatever
    happens."""
    draw = random.Random(f"{first_seed()} {run} {spark}")
    tuning = OutputTuning(small_bytes=draw.choice([1, 60, 1 << 20]), file_rows=draw.choice([3, 20, 1 << 20]))
    names = ("a", "b", "c")
    made: dict[int, dict[str, list[int]]] = {}
    job, saved, epoch, now = Job(tmp_path, names, tuning=tuning), -1, 0, 0.0
    #: What the checkpoint of each epoch names.
    named: dict[int, dict[str, str]] = {}

    def die() -> None:
        # The writing thread of this process lives on: what it has under way is finished before the process is said to
        # be dead.
        nonlocal job, epoch, saved
        if spark and draw.random() < 0.3:
            # The run has ended well before.
            job.box.close_up_to(saved)
            named[saved] = job.box.names(saved)
        job.box._wait()
        if spark and saved - 1 in named and planned == saved and draw.random() < 0.3:
            # The newest commit is removed.
            saved -= 1
        job = Job(tmp_path, names, draw.choice(["auto", "each"]), saved, tuning=tuning, named=named.get(saved))
        epoch = saved + 1

    planned = -1
    for _ in range(60):
        if draw.random() < 0.15:
            die()
        rows = made.setdefault(epoch, {n: [epoch * 100 + i for i in range(draw.choice([0, 1, 2, 9]))] for n in names})
        closable = epoch - 1 if spark else None
        planned = epoch
        job.epoch(epoch, now, closable, **rows)
        now += draw.random() * 2
        if spark or draw.random() < 0.5:
            job.box.flush(epoch, closable)
            if spark:
                job.box.committed(epoch - 1)
            noted = job.box.names(epoch)
            if draw.random() < 0.9:
                # Otherwise the process dies between the journal and the checkpoint.
                saved = epoch
                named[saved] = noted
                if not spark:
                    job.box.committed(epoch)
            else:
                die()
                continue
        epoch += 1
    job.stop(epoch)
    for name in names:
        assert job.keys(name) == [k for number in sorted(made) if number < epoch for k in made[number][name]]
    assert job.segments() == 0
