"""Errors of workers arrive on the driver as what they were."""

from __future__ import annotations

import pytest

from eddyline.errors import CheckpointProblem, DataProblem, Fault, StateProblem, UserError
from eddyline.runtime.spark.job.failure import readable, reported


def through_the_jvm(problem: BaseException) -> RuntimeError:
    """What Spark makes of a worker's exception: text, with frames before and after."""
    return RuntimeError(f"[STREAM_FAILED] org.apache.spark.SparkException: Job aborted\n\tat x.y.Z\n{problem}\n\tat a.b.C(D.scala:1)")


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
    found = readable(RuntimeError(f"[STREAM_FAILED] Query terminated with exception: Python worker failed to connect back.\n{plan}"))
    assert found.detail.endswith("Python worker failed to connect back.")


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
    with pytest.raises(RuntimeError) as caught, reported("shard 1 of 2"):
        raise PermissionError(13, "Permission denied", "/ck/eddyline/staged")
    denied = readable(through_the_jvm(caught.value))
    assert isinstance(denied, StateProblem) and "/ck/eddyline/staged" in denied.detail
