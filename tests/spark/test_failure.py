"""Errors of workers arrive on the driver as what they were."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from eddyline.errors import CheckpointProblem, DataProblem, EddylineError, Fault, StateProblem, UserError
from eddyline.model.clock import WallClock
from eddyline.runtime.sharded.job.progress import StreamProgress
from eddyline.runtime.sharded.job.ticker import Ticker
from eddyline.runtime.spark.job.driver import SparkDriver
from eddyline.runtime.spark.job.failure import is_lost, readable, reported
from eddyline.runtime.spark.job.stages import StageTimes


def through_the_jvm(problem: BaseException) -> RuntimeError:
    """What Spark makes of a worker's exception: text, with frames before and after."""
    return RuntimeError(
        f"[STREAM_FAILED] org.apache.spark.SparkException: Job aborted\n\tat x.y.Z\n{problem}\n\tat a.b.C(D.scala:1)"
    )


def test_an_error_of_ours_keeps_its_parts() -> None:
    with pytest.raises(RuntimeError) as caught, reported("stream bids, file 1.parquet"):
        raise DataProblem("a row is late", detail="ts 1 < 2", hint="declare more lateness")
    found = readable(through_the_jvm(caught.value))
    assert isinstance(found, DataProblem)
    assert (found.message, found.detail, found.hint) == ("a row is late", "ts 1 < 2", "declare more lateness")
    assert found.exit_code == 2


def test_anything_else_is_a_fault_that_says_where() -> None:
    with pytest.raises(RuntimeError) as caught, reported("shard 1 of 2"):
        {}["missing"]
    found = readable(through_the_jvm(caught.value))
    assert isinstance(found, Fault)
    assert "KeyError" in found.message and found.detail.startswith("shard 1 of 2; ")


def test_what_spark_says_itself_is_one_line() -> None:
    found = readable(RuntimeError("boom\njava.io.IOException: No space left on device\n\tat x"))
    assert "\n" not in found.detail and "No space left on device" in found.detail


def test_a_plan_is_no_cause() -> None:
    plan = "=== Streaming Query ===\nIdentifier: [id = 1]\nThread State: RUNNABLE\n\nLogical Plan:\n+- LocalRelation <empty>"
    found = readable(
        RuntimeError(f"[STREAM_FAILED] Query terminated with exception: Python worker failed to connect back.\n{plan}")
    )
    assert found.detail.endswith("Python worker failed to connect back.")
    assert isinstance(found, StateProblem) and "the same command continues" in found.hint


def test_the_innermost_report_counts() -> None:
    with pytest.raises(RuntimeError) as caught, reported("looking for files"), reported("the lists of files"):
        raise CheckpointProblem("a.log is damaged", hint="restore it")
    found = readable(through_the_jvm(caught.value))
    assert (
        isinstance(found, CheckpointProblem)
        and found.message == "a.log is damaged"
        and found.detail == "the lists of files"
    )


def test_a_folder_that_has_gone_is_no_fault() -> None:
    with pytest.raises(RuntimeError) as caught, reported("shard 1 of 2"):
        raise FileNotFoundError(2, "No such file or directory", "/ck/eddyline/staged")
    gone = readable(through_the_jvm(caught.value))
    assert isinstance(gone, StateProblem) and "/ck/eddyline/staged" in gone.detail and gone.exit_code == 2
    with pytest.raises(RuntimeError) as caught, reported("shard 1 of 2"):
        raise ConnectionResetError(104, "Connection reset by peer")
    assert isinstance(readable(through_the_jvm(caught.value)), Fault)
    lost = readable(
        RuntimeError("boom\njava.io.FileNotFoundException: File file:/ck/state/0/0/3.changelog does not exist\n\tat x")
    )
    assert isinstance(lost, CheckpointProblem) and "3.changelog" in lost.detail


def test_a_jvm_that_has_gone_is_no_fault() -> None:
    for problem in (
        Py4JError("An error occurred while calling o67.awaitTermination"),
        Py4JNetworkError("Answer from Java side is empty"),
        ConnectionRefusedError(111, "Connection refused"),
    ):
        found = readable(problem)
        assert isinstance(found, StateProblem) and found.detail and "the same command continues" in found.hint


class _Following:
    """A streaming query to which nothing comes."""

    isActive = True

    def exception(self) -> None:
        return None

    def awaitTermination(self, seconds: float) -> bool:
        assert self.isActive, "it waits although results cannot be written"
        return False

    def stop(self) -> None:
        self.isActive = False


def test_results_that_cannot_be_written_end_a_job_to_which_nothing_comes(tmp_path: Path) -> None:
    driver = SparkDriver.__new__(SparkDriver)
    driver.query, driver.reporter, driver._stopping = _Following(), None, False  # type: ignore[assignment]
    driver.layout = SimpleNamespace(checkpoint=str(tmp_path))  # type: ignore[assignment]
    driver.delivery = SimpleNamespace(failed=UserError("results cannot be written"))  # type: ignore[assignment]
    with pytest.raises(UserError, match="results cannot be written"):
        driver.wait()
    assert driver.ended and not driver.query.isActive


class _Gone:
    """A streaming query of a JVM that got the signal too."""

    def __init__(self, problem: Exception) -> None:
        self.problem = problem

    def __getattr__(self, name: str) -> object:
        raise self.problem

    @property
    def _jsq(self) -> object:
        raise self.problem


@pytest.mark.parametrize(
    "problem",
    [
        ConnectionRefusedError(111, "Connection refused"),
        Py4JError("An error occurred while calling o228.stop"),
        RuntimeError("java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext."),
        RuntimeError("[STREAM_FAILED] Query [id = 1] terminated with exception: Broken pipe SQLSTATE: XXKST"),
    ],
)
@pytest.mark.parametrize("stopping", [True, False])
def test_a_signal_to_every_process_of_a_job_ends_it_in_order(
    tmp_path: Path, problem: Exception, stopping: bool
) -> None:
    closed: list[bool] = []
    driver = SparkDriver.__new__(SparkDriver)
    driver.query, driver.reporter, driver.roster, driver.last_requests, driver._stopping = (
        _Gone(problem),
        None,
        None,
        (),
        stopping,
    )  # type: ignore[assignment]
    driver._last_control, driver.clock, driver.progress, driver.ended = 0, WallClock(), StreamProgress(), False
    driver.layout = SimpleNamespace(checkpoint=str(tmp_path))  # type: ignore[assignment]
    driver.ticker = Ticker()
    driver.times, driver._lost = StageTimes(), None
    driver.delivery = SimpleNamespace(failed=None, close=lambda: closed.append(True))  # type: ignore[assignment]
    if stopping:
        driver.wait()
        assert closed == [True] and driver.ended
    else:
        with pytest.raises(EddylineError, match=r"Spark ended in the middle|Spark stopped the job"):
            driver.wait()
        assert not closed


def test_what_code_of_a_job_raises_is_no_lost_process() -> None:
    with pytest.raises(RuntimeError) as caught, reported("shard 1 of 2"):
        raise KeyError("Python worker")
    assert not is_lost(through_the_jvm(caught.value))
    assert is_lost(RuntimeError("SparkException: Python worker exited unexpectedly (crashed)"))


def test_errors_of_the_driver_pass() -> None:
    problem = UserError("no")
    assert readable(problem) is problem


def test_a_lost_worker_is_no_damage() -> None:
    for words in (
        "SparkException: Python worker exited unexpectedly (crashed)\nCaused by: java.io.EOFException\n\tat java.io.DataInputStream",
        "SparkException: EOFException occurred while reading the port number from a daemon's stdout.",
    ):
        assert not isinstance(readable(RuntimeError(words)), UserError)


def test_full_disks_and_damaged_files_are_errors_of_their_own() -> None:
    full = readable(RuntimeError("boom\njava.io.IOException: No space left on device\n\tat x"))
    assert isinstance(full, StateProblem) and full.exit_code == 2 and "continues" in full.hint
    spoiled = readable(RuntimeError("[STREAM_FAILED] Checksum error: file:/ck/offsets/2 at 512 exp: 1 got: 2\n\tat x"))
    assert isinstance(spoiled, CheckpointProblem) and "/ck/offsets/2" in spoiled.detail and spoiled.hint
    for words in (
        "com.fasterxml.jackson.databind.exc.MismatchedInputException: No content to map due to end-of-input",
        "[X] Please remove the stateful operators, use a new checkpoint location, or restore the missing state files. SQLSTATE: 42K03",
    ):
        assert isinstance(readable(RuntimeError(f"boom\n{words}\n\tat x")), CheckpointProblem)
    with pytest.raises(RuntimeError) as caught, reported("shard 1 of 2"):
        raise PermissionError(13, "Permission denied", "/ck/eddyline/staged")
    denied = readable(through_the_jvm(caught.value))
    assert isinstance(denied, StateProblem) and "/ck/eddyline/staged" in denied.detail
