"""What a session starts with, and masters that survive a lost worker."""

from __future__ import annotations

import logging
import stat
from pathlib import Path

import py4j.java_gateway
import pytest
from pyspark import accumulators
from pyspark.sql import SparkSession

from eddyline.errors import SettingProblem
from eddyline.runtime.spark.job import session


@pytest.mark.parametrize(
    ("master", "forgiving"),
    [
        ("local[*]", "local[*,4]"),
        ("local[2,1]", "local[2,1]"),
        ("local", "local[1,4]"),
        ("spark://host:7077", "spark://host:7077"),
    ],
)
def test_local_masters_try_again(master: str, forgiving: str) -> None:
    assert session.forgiving(master) == forgiving


class _Stopped:
    """A session whose JVM has gone."""

    def stop(self) -> None:
        raise ConnectionRefusedError(111, "Connection refused")


class _Failing:
    """What makes a session, where the JVM refuses or ends."""

    def __init__(self, problem: Exception) -> None:
        self.problem = problem

    def getOrCreate(self) -> SparkSession:
        raise self.problem


@pytest.mark.parametrize(
    ("problem", "detail"),
    [
        (
            RuntimeError("boom\norg.apache.spark.SparkException: Could not parse Master URL: 'x'\n\tat a.b"),
            "Could not parse Master URL: 'x'",
        ),
        (ConnectionRefusedError(111, "Connection refused"), "[Errno 111] Connection refused"),
    ],
)
def test_a_spark_that_does_not_start_is_one_message(
    problem: Exception, detail: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "log_path", lambda: str(tmp_path / "words.log"))
    with pytest.raises(SettingProblem, match="does not start") as refused:
        session._started(_Failing(problem))
    assert refused.value.detail == detail and "words.log" in refused.value.hint
    (tmp_path / "words.log").write_text(
        'Exception in thread "main" org.apache.spark.SparkException: Master must be another\n\tat a.b'
    )
    with pytest.raises(SettingProblem, match="does not start") as refused:
        session._started(_Failing(problem))
    assert refused.value.detail == (detail if "Exception" in str(problem) else "Master must be another")


def test_what_spark_wrote_goes_with_a_run_that_ended_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    monkeypatch.setattr(session, "log_path", lambda: str(log))
    for ended_well, setting, stays in (
        (False, None, True),
        (True, "INFO", True),
        (True, None, False),
        (True, None, False),
    ):
        monkeypatch.delenv("EDDYLINE_SPARK_LOG", raising=False)
        if setting is not None:
            monkeypatch.setenv("EDDYLINE_SPARK_LOG", setting)
        if stays:
            log.write_text("words")
        session.close_session(_Stopped(), ended_well)  # type: ignore[arg-type]
        assert log.exists() == stays


def test_a_link_in_the_place_of_the_log_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "log").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic links"), session._aside(str(tmp_path / "log")):
        raise AssertionError("not reached")
    assert (tmp_path / "precious").read_text() == "mine"


def test_a_lost_connection_prints_no_traceback(spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> None:
    try:
        raise EOFError
    except EOFError:
        # What PySpark's thread does when the JVM is killed.
        accumulators.AccumulatorUnixServer.handle_error(None, None, None)  # type: ignore[arg-type]
        accumulators.AccumulatorTCPServer.handle_error(None, None, None)  # type: ignore[arg-type]
    # And what Py4J has to say of it, in its own name and in that of the root.
    words = compile(
        "import logging\nlogging.exception('Exception while sending command.')", py4j.java_gateway.__file__, "exec"
    )
    before = list(logging.getLogger().handlers)
    try:
        exec(words)
        logging.getLogger("py4j.clientserver").error("There was an exception while executing the Python Proxy")
        assert capfd.readouterr() == ("", "")
        logging.getLogger("eddyline").warning("this is ours")
        assert "this is ours" in capfd.readouterr().err or len(before) > 0
    finally:
        for handler in logging.getLogger().handlers[len(before) :]:
            logging.getLogger().removeHandler(handler)


def test_permissions_of_local_files_are_set_without_a_process(spark: SparkSession, tmp_path: Path) -> None:
    jvm = spark.sparkContext._jvm
    shared = jvm.org.apache.hadoop.fs.FileSystem.getLocal(spark._jsparkSession.sessionState().newHadoopConf())
    assert shared.getRaw().getClass().getName() == "eddyline.PlainLocalFiles"
    file = jvm.org.apache.hadoop.fs.Path(str(tmp_path / "file"))
    shared.create(file).close()
    for mode in (0o640, 0o644, 0o1755):
        shared.setPermission(file, jvm.org.apache.hadoop.fs.permission.FsPermission(f"{mode:o}"))
        assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == mode
