"""A Spark session that the caller owns: what a job needs of it, and how it is left as it was.

Answer   `check_session` refuses what cannot work, with a hint, before anything starts: Spark Connect, an old
         Spark, an interpreter of workers that is another Python or cannot import eddyline. `check_workers` asks the
         workers themselves, also for the checkpoint. `job_settings` puts a
         job's SQL settings on a session while its query starts, and takes them off again: a streaming query keeps a
         copy.
State    Which applications have been checked.
Limits   Heap sizes and the interpreter of the workers are fixed when a JVM starts; they can be looked at, not changed.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from uuid import uuid4

from pyspark.sql import SparkSession

from eddyline.errors import SettingProblem
from eddyline.runtime.spark.job.failure import readable
from eddyline.runtime.spark.job.session import prepare_session
from eddyline.state.whole_file import make_folder

#: The first Spark whose data sources in Python can end a bounded run.
_LOWEST_SPARK = (4, 1)

#: Seconds for an interpreter to start.
_PATIENCE = 60

_CHECKED: set[str] = set()


def check_session(spark: SparkSession) -> None:
    """Refuse a session on which no job can run."""
    if not isinstance(spark, SparkSession) or not hasattr(spark, "_jsparkSession"):
        raise SettingProblem(
            f"a session on Spark needs a SparkSession, not a {type(spark).__module__}.{type(spark).__name__}",
            detail="results are written by this process, which Spark Connect has no driver for",
            hint="SparkSession.builder.master(…).getOrCreate(), or spark-submit",
        )
    if tuple(map(int, spark.version.split(".")[:2])) < _LOWEST_SPARK:
        raise SettingProblem(f"Spark {spark.version} is too old", hint="pip install 'pyspark>=4.1', on the workers too")
    if spark.sparkContext.master.startswith("local") and not _has_our_workers(spark):
        check_interpreter(spark.sparkContext.pythonExec)


def check_workers(spark: SparkSession, checkpoint: str) -> None:
    """Ask the workers, once per application, for what they would otherwise fail of in the middle of the first batch."""
    application = f"{spark.sparkContext.applicationId} {checkpoint}"
    if application in _CHECKED or _has_our_workers(spark):
        return
    tasks = spark.sparkContext.defaultParallelism
    try:
        found = spark.sparkContext.parallelize(range(tasks), tasks).map(_Probe(checkpoint)).collect()
    except Exception as problem:
        said = str(problem)
        if "No module named" in said or "PYTHON_VERSION_MISMATCH" in said:
            lines = [
                line.strip()
                for line in said.splitlines()
                if "No module named" in line or "PYTHON_VERSION_MISMATCH" in line
            ]
            raise _other_python(lines[0]) from None
        raise readable(problem) from None
    here = _version()
    for host, there, sees in found:
        if there and there != here:
            raise SettingProblem(
                f"the workers have eddyline {there}, this program has {here}",
                detail=f"seen on {host}",
                hint="ship the same version to all of them",
            )
        if not sees:
            raise SettingProblem(
                f"the workers do not see the checkpoint folder {checkpoint}",
                detail=f"seen on {host}",
                hint="the checkpoint must lie on a file system that the driver and all workers mount under the same path",
            )
    _CHECKED.add(application)


def _has_our_workers(spark: SparkSession) -> bool:
    """Workers that our own daemon starts are forks of a process that has imported everything, on this machine."""
    return spark.sparkContext.getConf().get("spark.python.daemon.module", "").startswith("eddyline.")


def check_interpreter(interpreter: str) -> None:
    """Start the interpreter of workers on this machine before Spark does. Spark writes Java's traces for one that does
    not run, or that has no eddyline."""
    probe = "import sys, eddyline; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([interpreter, "-c", probe], capture_output=True, text=True, timeout=_PATIENCE)
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise _other_python(str(problem)) from None
    said, here = done.stdout.strip(), "{}.{}".format(*sys.version_info)
    if done.returncode or not said:
        last = (done.stderr.strip().splitlines() or [f"it ended with exit code {done.returncode}"])[-1]
        raise _other_python(f"{interpreter}: {last}")
    if said != here:
        raise _other_python(f"{interpreter} is Python {said}, this program runs on {here}")


def _other_python(detail: str) -> SettingProblem:
    return SettingProblem(
        "the Python of Spark's workers is not the one of this program",
        detail=detail,
        hint="set PYSPARK_PYTHON to an interpreter with eddyline before the session is made, or ship one with --archives",
    )


@cache
def is_shared(spark: SparkSession, folder: str) -> bool:
    """Whether the workers see a folder of the driver under the same path."""
    context = spark.sparkContext
    if context.master.startswith("local["):
        return True
    folder = os.path.join(folder, f".{uuid4().hex}")
    make_folder(folder)
    try:
        tasks = context.defaultParallelism
        return all(sees for _, _, sees in context.parallelize(range(tasks), tasks).map(_Probe(folder)).collect())
    finally:
        os.rmdir(folder)


def _version() -> str:
    """Empty where the package was shipped as bare files."""
    try:
        return version("eddyline")
    except PackageNotFoundError:
        return ""


class _Probe:
    """What a worker says of itself; a class of ours, so that it arrives only where eddyline can be imported."""

    def __init__(self, checkpoint: str) -> None:
        self.checkpoint = checkpoint

    def __call__(self, _: int) -> tuple[str, str, bool]:
        return platform.node(), _version(), os.path.isdir(self.checkpoint)


@contextmanager
def job_settings(spark: SparkSession) -> Iterator[None]:
    """The SQL settings of a job, while its query starts."""
    before = dict(spark.conf.getAll)
    prepare_session(spark)
    try:
        yield
    finally:
        for key, value in dict(spark.conf.getAll).items():
            if key not in before:
                spark.conf.unset(key)
            elif value != before[key]:
                spark.conf.set(key, before[key])


def data_source_is_there(spark: SparkSession, name: str) -> bool:
    """Whether Spark finds a format by its name: its jars are on the class path."""
    lookup = spark._jvm.org.apache.spark.sql.execution.datasources.DataSource
    try:
        lookup.lookupDataSource(name, spark._jsparkSession.sessionState().conf())
    except Exception:  # py4j hands over whatever the JVM threw
        return False
    return True
