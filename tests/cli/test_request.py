"""`eddyline request`: against a job that runs in another process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline.cli.__main__ import main
from eddyline.runtime.control.control import ControlFolder
from eddyline.runtime.control.control_record import Malformed, read_record
from tests import forks

JOB = """
CREATE STREAM packets (src STRING, len BIGINT, ts TIMESTAMP) WITH (format='parquet', path='packets', time='ts');
SET checkpoint_seconds = 0;
CREATE TEMPLATE traffic WITH (history = '5 seconds') AS
  SELECT src, SUM(len) AS bytes, COUNT(*) AS n FROM packets [RANGE 10 SECONDS] GROUP BY src;
"""


def feed(number: int, *values: tuple[str, int, int]) -> None:
    times = pa.array([ts * 1_000_000 for _, _, ts in values], pa.timestamp("us"))
    table = pa.table({"src": [src for src, _, _ in values], "len": [n for _, n, _ in values], "ts": times})
    parquet.write_table(table, "packets/.hidden")
    os.rename("packets/.hidden", f"packets/{number}.parquet")


def wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 240
    while not condition():
        assert time.monotonic() < deadline, "the job did not get there in time"
        time.sleep(0.05)


def once_asked(act: Callable[..., object], *given: object) -> None:
    """Act as soon as the job has taken up a further request: records are carried out in order, and one behind it has
    been answered."""
    folder = ControlFolder("ck")
    before = folder.waiting(0)

    def watch() -> None:
        wait(lambda: folder.waiting(0) != before)
        command = [sys.executable, "-m", "eddyline.cli", "request", "n FROM traffic GROUP BY ()", "--job", "ck"]
        forks.run(command, stdout=subprocess.DEVNULL, check=True)
        act(*given)

    threading.Thread(target=watch, daemon=True).start()


def newest(seconds: int) -> bool:
    path = Path("ck/checkpoint.json")
    return path.exists() and f'"newest": {seconds}000000' in path.read_text()


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "packets").mkdir()
    (tmp_path / "job.sql").write_text(JOB)
    return tmp_path


@pytest.fixture
def job(work: Path) -> Iterator[subprocess.Popen[bytes]]:
    feed(0, ("a", 1, 1), ("b", 2, 2), ("a", 4, 3), ("b", 8, 4))
    command = [sys.executable, "-m", "eddyline.cli", "run", "job.sql", "--checkpoint", "ck", "--quiet"]
    process = forks.Command(command, cwd=work)
    try:
        wait(lambda: newest(4))
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=240) == 0


def asked(capfdbinary: pytest.CaptureFixture[bytes], *arguments: str) -> tuple[int, str, str]:
    capfdbinary.readouterr()
    code = main(["request", "--job", "ck", *arguments])
    said = capfdbinary.readouterr()
    return code, said.out.decode(), said.err.decode()


def test_a_running_job_answers(job: subprocess.Popen[bytes], capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    code, out, _ = asked(capfdbinary, "src, bytes FROM traffic WHERE src = 'a'", "--format", "jsonl")
    assert code == 0 and json.loads(out) == {"src": "a", "bytes": 5, "_ts": "1970-01-01 00:00:03.999999"}
    code, out, _ = asked(capfdbinary, "n FROM traffic GROUP BY ()", "--as-of", "1970-01-01 00:00:02", "--format", "csv")
    assert code == 0 and out.splitlines()[0] == '"n","_ts"' and out.splitlines()[1].startswith("2,")
    code, out, _ = asked(capfdbinary, "REQUEST src, n FROM traffic WHERE src = 'c'")
    assert code == 0 and "src" in out and "REQUEST" not in out.split("src")[0]
    Path("asks.sql").write_text(
        "REQUEST n FROM traffic GROUP BY ();\nREQUEST bytes FROM traffic [RANGE 1 SECOND] GROUP BY ();\n"
    )
    code, out, _ = asked(capfdbinary, "--file", "asks.sql", "--format", "jsonl")
    assert code == 0 and [json.loads(line).get("n", json.loads(line).get("bytes")) for line in out.splitlines()] == [
        3,
        4,
    ]
    assert not list(Path("ck/control/answers").iterdir())


def test_an_instant_ahead_waits(job: subprocess.Popen[bytes], capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    ask = ("n FROM traffic GROUP BY ()", "--as-of", "1970-01-01 00:00:06", "--format", "jsonl")
    code, _, err = asked(capfdbinary, *ask, "--timeout", "0.2")
    assert code == 2 and "not answered within 0.2 seconds" in err
    # The stream then jumps far beyond the instant: its rows are kept for the request that waits.
    once_asked(feed, 1, ("a", 16, 5), ("a", 32, 500), ("a", 64, 501))
    code, out, _ = asked(capfdbinary, *ask, "--timeout", "240")
    assert code == 0 and json.loads(out)["n"] == 5


def test_refusals(job: subprocess.Popen[bytes], capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    Path("two.sql").write_text("-- of today\nREQUEST n FROM traffic;\nREQUEST m FROM traffic;\n")
    for arguments, part in (
        (["n FROM trafic"], "did you mean traffic?"),
        (["n FROM traffic WHERE len = 1"], "grouping columns are src"),
        (["n FROM traffic [RANGE 1 HOUR]"], "is longer than the window"),
        (["n FROM"], "the name of a template"),
        (["DROP TEMPLATE traffic"], "a column of the template"),
        (["n FROM traffic", "--as-of", "yesterday"], "is not a TIMESTAMP"),
        ([], "there is no request"),
        (["--file", "nothing.sql"], "nothing.sql"),
        (["--file", "two.sql"], "lists no m (at line 3, column 9)"),
        (["n FROM traffic", "--timeout", "nan"], "--timeout cannot be nan"),
        (["n FROM traffic", "--timeout", "-1"], "--timeout cannot be -1"),
    ):
        code, out, err = asked(capfdbinary, *arguments)
        assert code == 2 and part in err and not out, (arguments, err)
    feed(1, ("a", 1, 100), ("a", 1, 101))
    wait(lambda: newest(101))
    code, _, err = asked(capfdbinary, "n FROM traffic", "--as-of", "1970-01-01 00:00:03")
    assert code == 2 and "too old" in err and "1970-01-01 00:01:35.999999" in err
    job.send_signal(signal.SIGTERM)
    assert job.wait(timeout=240) == 0
    code, _, err = asked(capfdbinary, "n FROM traffic")
    assert code == 2 and "the job in ck has stopped" in err


def test_a_job_that_never_started(work: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    code, out, err = asked(capfdbinary, "n FROM traffic")
    assert code == 2 and not out and "there is no job in ck" in err and "run … --checkpoint DIR" in err


def test_a_job_that_is_killed_meanwhile(
    job: subprocess.Popen[bytes], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    once_asked(job.kill)
    code, out, err = asked(capfdbinary, "n FROM traffic", "--as-of", "1970-01-01 01:00:00")
    assert code == 2 and not out and "the job in ck has stopped" in err


def test_a_job_that_stops_meanwhile(job: subprocess.Popen[bytes], capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    once_asked(job.send_signal, signal.SIGTERM)
    code, _, err = asked(capfdbinary, "n FROM traffic", "--as-of", "1970-01-01 01:00:00")
    assert code == 2 and "lies ahead" in err
    assert job.wait(timeout=240) == 0


@pytest.mark.parametrize(
    "record",
    [
        {"op": "request", "token": "../x", "requests": []},
        {"op": "request", "token": "a" * 32, "requests": "n FROM traffic"},
        {"op": "request", "token": "a" * 32, "requests": [], "as_of": 5},
        {"op": "request", "token": "a" * 32, "requests": [], "until": "soon"},
    ],
)
def test_records_that_are_none(tmp_path: Path, record: dict[str, object]) -> None:
    (tmp_path / "r.json").write_text(json.dumps(record))
    with pytest.raises(Malformed):
        read_record(str(tmp_path / "r.json"))
