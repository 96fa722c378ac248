"""Each kind of file in a checkpoint of a Spark job damaged in turn: one message with a hint and exit code 2, or a clean
recovery.

Full disks and missing permissions are met in the same way: never a traceback, never "a fault of the engine".
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from eddyline import Session
from eddyline.errors import CheckpointProblem, EddylineError, StateProblem
from eddyline.runtime.control.control import ControlFolder
from eddyline.runtime.control.control_record import add_record
from eddyline.runtime.sharded.ingest.control import write_control
from eddyline.runtime.sharded.job import checkpoint_progress
from eddyline.runtime.sharded.job.checkpoint_progress import committed_batch
from eddyline.state.sealed import sealed
from tests.spark.material import write_files

pytestmark = [pytest.mark.spark, pytest.mark.slow]

JOB = """
SET shards = 2;
CREATE STREAM a (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (format='parquet', path='{0}/a', time='ts', files_per_batch=1);
CREATE TABLE names (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (format='parquet', path='{0}/a/0.parquet');
CREATE QUERY odd AS SELECT v FROM a WHERE v % 2 = 1;
CREATE QUERY named AS SELECT a.v, n.k FROM a [RANGE 1 SECOND], names n WHERE a.v = n.v;
CREATE QUERY twice AS SELECT x.v FROM a [RANGE 1 HOUR] x, a [RANGE 1 HOUR] y WHERE x.v = y.v;
"""


def _below(folder: str, checkpoint: Path) -> Path:
    return checkpoint / folder


#: Kind of file -> how to find the one of that kind which the next run reads.
KINDS: dict[str, Callable[[Path], Path]] = {
    "identity": lambda c: c / "eddyline.json",
    "begun": lambda c: c / "begun.json",
    "ledger": lambda c: c / "eddyline" / "ledger.json",
    "layout": lambda c: next((c / "eddyline" / "layouts").iterdir()),
    "control": lambda c: max((c / "eddyline" / "control").iterdir()),
    "table": lambda c: next((c / "eddyline" / "tables").iterdir()),
    "standing": lambda c: max((c / "eddyline" / "standing").iterdir()),
    "files": lambda c: next(f for f in sorted((c / "eddyline" / "files").rglob("*")) if f.is_file()),
    "metadata": lambda c: c / "metadata",
    "offset": lambda c: max(_numbered(c / "offsets"), key=lambda f: int(f.name)),
    "commit": lambda c: max(_numbered(c / "commits"), key=lambda f: int(f.name)),
    "head": lambda c: max((c / "eddyline" / "heads").iterdir()),
    "state": lambda c: max(f for f in (c / "eddyline" / "segments" / "0").iterdir() if _is_header(f)),
    "segment": lambda c: max(f for f in (c / "eddyline" / "segments" / "0").iterdir() if not _is_header(f)),
}
#: Folders, which are lost as a whole.
FOLDERS = (
    "offsets/",
    "commits/",
    "eddyline/",
    "eddyline/heads/",
    "eddyline/segments/",
    "eddyline/files/",
    "eddyline/control/",
    "eddyline/layouts/",
    "eddyline/tables/",
)
#: What a start does without, or writes anew: a batch whose commit is lost comes again, messages that no batch has read
#: are said again.
RENEWED = {
    "begun",
    "layout",
    "standing",
    "commit",
    "control",
    "eddyline/control/",
    "eddyline/layouts/",
}
DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "bit": lambda content: (
        content[: len(content) // 2] + bytes([content[len(content) // 2] ^ 1]) + content[len(content) // 2 + 1 :]
    ),
    "truncated": lambda content: content[: len(content) * 2 // 3],
    "empty": lambda content: b"",
    "foreign": lambda content: b"PK\x03\x04 something else altogether\n" * 4,
    "another version's": lambda content: sealed({"format": 99, "engine": "spark"}),
    "missing": lambda content: None,
}
#: What every run finds damaged in one way or another; the rest of the matrix takes long.
SHORT = [
    ("ledger", "bit"),
    ("offsets/", "missing"),
    ("identity", "truncated"),
    ("table", "bit"),
    ("layout", "empty"),
    ("offset", "truncated"),
    ("state", "empty"),
    ("segment", "bit"),
    ("head", "missing"),
]
LONG = [(kind, damage) for kind in KINDS for damage in DAMAGES if (kind, damage) not in SHORT]
LONG += [(folder, "missing") for folder in FOLDERS if (folder, "missing") not in SHORT]
KINDS |= {folder: partial(_below, folder) for folder in FOLDERS}
#: Only a job that was killed has results that are in no file.
KINDS |= {
    "pending": lambda c: min((c / "eddyline" / "pending").iterdir()),
    "pending/": lambda c: c / "eddyline" / "pending",
}


def _is_header(file: Path) -> bool:
    return file.name.count("-") == 1


def _numbered(folder: Path) -> list[Path]:
    return [file for file in folder.iterdir() if file.name.isdigit()]


@pytest.fixture(scope="module")
def before(spark, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job that has run once, with a control record that no batch has read; and more rows to come."""
    folder = tmp_path_factory.mktemp("before")
    write_files(folder / "a", ["0.parquet", "1.parquet", "2.parquet"], 100)
    run(spark, folder)
    write_control(str(folder / "state"), {"idle": []})
    write_files(folder / "a", ["3.parquet"], 100, first=300)
    return folder


def run(spark, folder: Path) -> None:
    with Session(spark=spark, checkpoint=str(folder / "state"), out=str(folder / "out"), keep_results=False) as session:
        session.execute(JOB.format(folder))
        session.run(once=True)


@pytest.fixture
def job(before: Path, tmp_path: Path) -> Path:
    """A copy at the same path: streams and checkpoints belong to their paths."""
    kept = tmp_path / "kept"
    shutil.copytree(before, kept)
    yield before  # type: ignore[misc]
    shutil.rmtree(before)
    shutil.copytree(kept, before)


def odd(folder: Path) -> list[int]:
    found = [
        parquet.read_table(file).column("v").to_pylist() for file in sorted((folder / "out" / "odd").glob("*.parquet"))
    ]
    return sorted(v for part in found for v in part)


def check_damage(spark, job: Path, kind: str, damage: str, written: int = 300) -> None:
    """
    Args:
        written: results of rows below this one are in files before the damage.
    """
    path = KINDS[kind](job / "state")
    content = DAMAGES[damage](b"" if path.is_dir() else path.read_bytes())
    if path.is_dir():
        shutil.rmtree(path)
    elif content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    try:
        run(spark, job)
    except EddylineError as problem:
        assert problem.exit_code == 2 and problem.detail and problem.hint, repr(problem)
        assert isinstance(problem, CheckpointProblem), repr(problem)
        # Nothing more was written, and nothing is lost.
        assert odd(job) == list(range(1, written, 2))
        return
    assert odd(job) == list(range(1, 400, 2)), f"{kind} {damage}: neither a message nor a recovery"
    assert damage != "missing" or kind in RENEWED, f"{kind} is not needed?"


@pytest.mark.parametrize(("kind", "damage"), SHORT)
def test_damage_is_named_or_mended(spark, job: Path, kind: str, damage: str) -> None:
    check_damage(spark, job, kind, damage)


@pytest.mark.long
@pytest.mark.parametrize(("kind", "damage"), LONG)
def test_every_kind_of_damage_is_named_or_mended(spark, job: Path, kind: str, damage: str) -> None:
    check_damage(spark, job, kind, damage)


@pytest.fixture(scope="module")
def killed_before(spark, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job that ended as by a kill: the results of its first three files are in the checkpoint alone."""
    folder = tmp_path_factory.mktemp("killed")
    write_files(folder / "a", ["0.parquet", "1.parquet", "2.parquet"], 100)
    state = str(folder / "state")
    with (
        pytest.raises(KeyboardInterrupt),
        Session(spark=spark, checkpoint=state, out=str(folder / "out"), keep_results=False) as session,
    ):
        session.execute("SET output_seconds = 1000;" + JOB.format(folder))
        session.start()
        wait_for(lambda: committed_batch(state) >= 2)
        raise KeyboardInterrupt
    assert odd(folder) == [] and list((folder / "state/eddyline/pending").iterdir())
    write_files(folder / "a", ["3.parquet"], 100, first=300)
    return folder


@pytest.fixture
def killed(killed_before: Path, tmp_path: Path) -> Path:
    kept = tmp_path / "kept"
    shutil.copytree(killed_before, kept)
    yield killed_before  # type: ignore[misc]
    shutil.rmtree(killed_before)
    shutil.copytree(kept, killed_before)


def wait_for(reached: Callable[[], bool]) -> None:
    for _ in range(4800):
        if reached():
            return
        time.sleep(0.05)
    raise AssertionError("not reached in four minutes")


@pytest.mark.parametrize("damage", ["missing"])
def test_results_on_their_way_to_files_that_are_lost_are_named(spark, killed: Path, damage: str) -> None:
    check_damage(spark, killed, "pending", damage, written=0)


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "damage"), [*(("pending", damage) for damage in DAMAGES), ("pending/", "missing"), ("commit", "missing")]
)
def test_after_a_kill_every_damage_is_named_or_mended(spark, killed: Path, kind: str, damage: str) -> None:
    check_damage(spark, killed, kind, damage, written=0)


def test_an_embedded_checkpoint_is_refused_and_stays(spark, tmp_path: Path) -> None:
    write_files(tmp_path / "a", ["0.parquet"], 100)
    with Session(checkpoint=str(tmp_path / "state"), out=str(tmp_path / "out"), keep_results=False) as session:
        session.execute(JOB.format(tmp_path))
        session.run(once=True)
    before = {file: file.read_bytes() for file in sorted(tmp_path.rglob("*")) if file.is_file()}
    with pytest.raises(CheckpointProblem, match="checkpoint of the engine embedded") as refused:
        run(spark, tmp_path)
    assert "--engine embedded continues it" in refused.value.hint and "--overwrite" not in refused.value.hint
    assert {
        file: file.read_bytes() for file in sorted(tmp_path.rglob("*")) if file.is_file() and file.name != "lock"
    } == {file: content for file, content in before.items() if file.name != "lock"}


def test_a_second_session_on_a_checkpoint_is_refused(spark, job: Path) -> None:
    """Two sessions of one process; two processes are kept apart by the same lock."""
    with Session(spark=spark, checkpoint=str(job / "state"), out=str(job / "out"), keep_results=False) as session:
        session.execute(JOB.format(job))
        session.start()
        with pytest.raises(CheckpointProblem, match="is in use") as refused:
            run(spark, job)
        assert f"process {os.getpid()}" in refused.value.detail
        session.stop()


def test_the_checkpoint_is_private_and_results_are_not(spark, job: Path) -> None:
    assert (job / "state").stat().st_mode & 0o777 == 0o700
    umask = os.umask(0o022)
    os.umask(umask)
    for file in (job / "out" / "odd").glob("*.parquet"):
        assert file.stat().st_mode & 0o777 == 0o666 & ~umask


def test_a_full_disk_is_one_message_and_the_same_command_goes_on(
    spark, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver's own writes; `tests/fault` fills a real disk."""

    def full(*args: object, **more: object) -> None:
        raise OSError(28, os.strerror(28), str(job / "state" / "x"))

    with monkeypatch.context() as patched:
        patched.setattr(checkpoint_progress, "write_sealed", full)
        with pytest.raises(StateProblem, match="cannot be written") as refused:
            run(spark, job)
    assert (
        refused.value.exit_code == 2
        and "No space left" in refused.value.detail
        and "the same command continues" in refused.value.hint
    )
    run(spark, job)
    assert odd(job) == list(range(1, 400, 2))


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("folder", ["state", "out"])
def test_a_disk_that_is_really_full(spark, tmp_path: Path, folder: str) -> None:
    """A small file system, which is enlarged a little after every failure. Without the right to mount one there is no
    failure."""
    write_files(tmp_path / "a", [f"{number}.parquet" for number in range(4)], 100)
    disk, pages, failures = tmp_path / folder, 1, 0
    disk.mkdir()
    mounted = not subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={4 * pages}k", "none", str(disk)], capture_output=True
    ).returncode
    try:
        while odd(tmp_path) != list(range(1, 400, 2)):
            try:
                run(spark, tmp_path)
            except EddylineError as problem:
                assert problem.exit_code == 2 and problem.hint and "No space left" in problem.detail, repr(problem)
                failures += 1
                pages += 20
                subprocess.run(["mount", "-o", f"remount,size={4 * pages}k", str(disk)], check=True)
        assert failures > 0 or not mounted
        print(f"{failures} failures, {4 * pages} kB", flush=True)
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_foreign_file_in_the_folders_is_not_ours(spark, job: Path) -> None:
    for folder in (
        "",
        "eddyline",
        "eddyline/layouts",
        "eddyline/control",
        "eddyline/tables",
        "eddyline/standing",
        "control",
        "commits",
    ):
        (job / "state" / folder / "notes of a colleague.txt").write_text("hello")
    ControlFolder(str(job / "state")).append(add_record("CREATE QUERY more AS SELECT v FROM a"))
    run(spark, job)
    assert odd(job) == list(range(1, 400, 2))
