"""A Spark session with the settings that matter to a job.

Answer   `open_session` finds a Java, points the workers at the running interpreter and sets what was measured to count
         before the JVM starts.
Limits   On a cluster the session is the user's: `check_session` says what a job needs of it. Sizes of heaps and the
         interpreter of the workers cannot be changed once a JVM runs.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import py4j  # type: ignore[import-untyped]
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import accumulators
from pyspark.sql import SparkSession

from eddyline.errors import SettingProblem
from eddyline.runtime.spark.job import helpers
from eddyline.runtime.spark.job.java import suitable_java
from eddyline.runtime.spark.job.light_home import light_home, remove_with
from eddyline.runtime.spark.job.local_files import keep_in_process

_PY4J = os.path.join(os.path.dirname(py4j.__file__), "")
#: Renames without forking a process per file, which the default does where Hadoop's native library is missing.
_LOCAL_FILE_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

#: SQL settings of a job, each with its reason; they are set on any session, ours or the user's.
JOB_SETTINGS: dict[str, str] = {
    # Event times have no zone with us; UTC keeps Spark from shifting them.
    "spark.sql.session.timeZone": "UTC",
    # Rows of DataFrames are packed as they come: there is nothing to adapt, and planning again costs time.
    "spark.sql.adaptive.enabled": "false",
    # Plans of two operators over a handful of rows: compiling them costs more than interpreting them (350 -> 270 ms).
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Tracebacks are ours to shorten. Spark passes this on in the environment of its workers, and only to some: without
    # it, the tasks that read and the tasks that step share the same few workers.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    # A heartbeat comes through the control source; batches without input would only cost.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # Folders are listed when nothing is new: ten times a second will do, the default is a hundred.
    "spark.sql.streaming.pollingDelay": "100ms",
    # Events of 12 KB each; the driver takes them over every 32 batches.
    "spark.sql.streaming.numRecentProgressUpdates": "64",
}

_LOCAL_SETTINGS: dict[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Workers are forked with the engine loaded.
    "spark.python.daemon.module": "eddyline.runtime.spark.daemon",
    # Every broadcast of a batch (there are three, of some kilobytes) begins by making room for one block; the default
    # is 4 MB.
    "spark.broadcast.blockSize": "256k",
    # Without its page Spark still notes every job, stage and SQL plan, by default a thousand of each, which fill the
    # heap slowly.
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "200",
    "spark.sql.ui.retainedExecutions": "20",
    # Between the JVM and its Python workers: no TCP.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.streaming.checkpointFileManagerClass": _LOCAL_FILE_MANAGER,
    # Hadoop keeps a checksum beside every file of a local disk; another one of Spark's doubles the files of every
    # batch.
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    # The JVM plans small batches and hands blobs on. The optimising compiler and the threads of the parallel collector
    # cost it two fifths of its time on two cores and never pay back. Spark loads a great number of classes, and the
    # default threshold for them asks for four full collections before the first batch. The heap begins small and grows
    # where it has to: begun with a sixty-fourth of the machine, most of it is touched and never needed.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:MetaspaceSize=256m -Xms192m",
}


def open_session(
    master: str = "local[*]", *, memory: str = "1g", name: str = "eddyline", settings: Mapping[str, str] | None = None
) -> SparkSession:
    """The running session, or a new one with our settings.

    Args:
        master: Spark's master URL.
        memory: Heap of the driver, which in local mode is also the executor.
        name: Name of the application.
        settings: Further Spark settings; they win over ours.
    """
    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    os.environ["JAVA_HOME"] = suitable_java()
    # Helper processes take the system's python otherwise.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    wanted = {"spark.driver.memory": memory, **JOB_SETTINGS}
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        wanted |= _LOCAL_SETTINGS
    builder = SparkSession.builder.master(forgiving(master)).appName(name)
    for key, value in (wanted | dict(settings or {})).items():
        builder = builder.config(key, value)
    _keep_quiet()
    with warnings.catch_warnings(), _aside(log_path()), light_home(master.startswith("local")) as made:
        warnings.simplefilter("ignore")
        if made:
            made += helpers.start(made[0])
        handler = signal.getsignal(signal.SIGINT)
        session = _started(builder)
        if threading.current_thread() is threading.main_thread():
            # Spark's own asks the JVM to cancel its jobs, in the middle of whatever was asked of the JVM before: both
            # answers are mixed up.
            signal.signal(signal.SIGINT, handler)
    session.sparkContext.setLogLevel(os.environ.get("EDDYLINE_SPARK_LOG", "ERROR"))
    if master.startswith("local"):
        keep_in_process(session)
        remove_with(session.sparkContext._jvm, made)
        if made:
            session.sparkContext.environment[helpers.HOME] = str(made[0])
    return session


def _started(builder: Any) -> SparkSession:
    try:
        session: SparkSession = builder.getOrCreate()
    except Exception as problem:  # py4j hands over whatever the JVM threw
        # A master or a folder that cannot be used: the JVM says it in its answer, or ends and has said it in its log.
        causes = re.findall(r"(?:Exception|Error): ([^\n]+)", str(problem))
        with contextlib.suppress(OSError), open(log_path(), encoding="utf-8", errors="replace") as log:
            causes = [*causes, *re.findall(r"(?:Exception|Error): ([^\n]+)", log.read())]
        detail = (causes or str(problem).splitlines() or [type(problem).__name__])[0][:500]
        raise SettingProblem(
            "Spark does not start", detail=detail, hint=f"Spark's own words are in {log_path()}"
        ) from problem
    return session


def close_session(session: SparkSession, ended_well: bool) -> None:
    """Stop Spark; a JVM that has gone needs no stop. What Spark wrote stays where a message names it or
    EDDYLINE_SPARK_LOG is set."""
    with contextlib.suppress(ConnectionError, Py4JError):
        session.stop()
    if ended_well and "EDDYLINE_SPARK_LOG" not in os.environ:
        with contextlib.suppress(OSError):
            os.remove(log_path())


def _keep_quiet() -> None:
    """A JVM that is killed ends its connections. Py4J and a thread of PySpark would print tracebacks; the error of the
    job says it."""
    logging.getLogger("py4j").propagate = False
    # Some of its words come through the root, which has one filter however often this is called.
    logging.getLogger().addFilter(_is_not_of_py4j)
    for server in (accumulators.AccumulatorTCPServer, accumulators.AccumulatorUnixServer):
        server.handle_error = lambda *_: None


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return not record.pathname.startswith(_PY4J)


def forgiving(master: str) -> str:
    """A local master gives up at the first lost worker unless a setting says how many failures a task may have.

    >>> forgiving("local[2]")
    'local[2,4]'
    """
    return re.sub(r"^local\[([^],]+)\]$", r"local[\1,4]", "local[1]" if master == "local" else master)


def log_path() -> str:
    """The file that takes what the JVM and its workers write; EDDYLINE_SPARK_LOG sets how much that is."""
    return os.path.join(tempfile.gettempdir(), f"eddyline-spark-{os.getpid()}.log")


@contextmanager
def _aside(path: str) -> Iterator[None]:
    """A process started inside writes its output and errors to a file: Spark's are long, and the terminal is ours."""
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    kept = [os.dup(1), os.dup(2)]
    try:
        sys.stdout.flush()
        sys.stderr.flush()
        for descriptor in (1, 2):
            os.dup2(log, descriptor)
        yield
    finally:
        for descriptor, before in zip((1, 2), kept, strict=True):
            os.dup2(before, descriptor)
            os.close(before)
        os.close(log)


def prepare_session(session: SparkSession) -> None:
    """Put a job's SQL settings on a session, the user's or ours."""
    for key, value in JOB_SETTINGS.items():
        session.conf.set(key, value)
