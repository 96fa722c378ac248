"""All that a start of a job on Spark does before Spark itself gets to work: `python -m tests.fault.starting`, in the
folder of a job.

The same code in the same order as `eddyline run job.sql --engine spark --out out --checkpoint state`, in a process that
needs no JVM: it ends where Spark would be started. A kill in it leaves what a kill at the same place of the command
leaves.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from eddyline.language import bind_script
from eddyline.runtime.spark import runner


class _Settings(dict[str, str]):
    getAll = property(lambda self: dict(self))

    def set(self, key: str, value: str) -> None:
        self[key] = value

    def unset(self, key: str) -> None:
        self.pop(key, None)


class SparkWouldStart(BaseException):
    """The preparations are done."""


class _Session:
    """What preparations ask of a session of `open_session("local[2]")`."""

    version = "4.1"
    sparkContext = SimpleNamespace(
        applicationId="starting",
        defaultParallelism=2,
        getConf=lambda: {"spark.python.daemon.module": "eddyline.runtime.spark.daemon"},
    )
    dataSource = SimpleNamespace(register=lambda source: None)

    def __init__(self) -> None:
        self.conf = _Settings()

    @property
    def readStream(self) -> Any:
        raise SparkWouldStart


def main() -> None:
    runner.check_session = lambda spark: None  # type: ignore[assignment]
    job = bind_script(Path("job.sql").read_text())
    made = runner.SparkRunner(job, _Session(), out="out", checkpoint="state", keep_results=False)  # type: ignore[arg-type]
    try:
        made.start()
    except SparkWouldStart:
        print("done")


if __name__ == "__main__":
    main()
