"""Marks of processes that died, and work in a child."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from eddyline.connectors.guarded.apart import in_child
from eddyline.connectors.guarded.parsing_marks import Marks, shared_marks
from eddyline.errors import SourceProblem

DYING = """
import os, signal, sys
from eddyline.connectors.guarded.parsing_marks import Marks
marks = Marks(sys.argv[1])
with marks.of("/data/a").parsing(3, 1):
    pass
with marks.of("/data/a").parsing(10, 5), marks.of("/data/b").parsing(0, 2):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def dead(folder: Path) -> None:
    done = subprocess.run([sys.executable, "-c", DYING, str(folder)], check=False)
    assert done.returncode == -signal.SIGKILL


def test_marks_of_a_process_that_died_are_taken_over_and_those_of_a_living_one_are_not(tmp_path: Path) -> None:
    dead(tmp_path)
    first = Marks(str(tmp_path))
    a, b = first.of("/data/a"), first.of("/data/b")
    assert (a.suspects(), b.suspects(), first.of("/data/c").suspects()) == ([(10, 5)], [(0, 2)], [])
    # They are this process's now.
    assert len(list(tmp_path.iterdir())) == 1 and Marks(str(tmp_path)).of("/data/a").suspects() == []
    a.parsed_apart(8, 12, [])
    b.parsed_apart(0, 2, [(1, 1)])
    assert (a.suspects(), b.suspects()) == ([(12, 3)], [(1, 1)])
    first.close()
    # What kills stays in the folder; what does not is forgotten with the file.
    last = Marks(str(tmp_path))
    assert (last.of("/data/a").suspects(), last.of("/data/b").suspects()) == ([(12, 3)], [(1, 1)])
    last.of("/data/a").parsed_apart(0, 100, [])
    last.of("/data/b").parsed_apart(0, 100, [])
    last.close()
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_lives_long_finds_the_marks_of_one_that_dies(tmp_path: Path) -> None:
    marks = shared_marks(str(tmp_path))
    with marks.of("/data/x").parsing(0, 1):
        dead(tmp_path)
        assert marks.of("/data/a").suspects() == []
        assert shared_marks(str(tmp_path)) is marks and marks.of("/data/a").suspects() == [(10, 5)]
    marks.of("/data/a").parsed_apart(0, 100, [])
    marks.of("/data/b").parsed_apart(0, 100, [])
    marks.close()


def test_garbage_in_the_folder_and_a_folder_that_cannot_be_made_do_no_harm(tmp_path: Path) -> None:
    folder = tmp_path / "parsing"
    folder.mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "link").symlink_to("/etc/hostname")
    (folder / "below").mkdir()
    (folder / "noise").write_bytes(os.urandom(10_000))
    marks = Marks(str(folder))
    with marks.of("/data/a").parsing(0, 1):
        assert marks.of("/data/a").suspects() == []
    marks.close()
    (tmp_path / "file").write_text("")
    nowhere = Marks(str(tmp_path / "file" / "parsing"))
    with nowhere.of("/data/a").parsing(0, 1):
        pass
    nowhere.close()


def test_more_stretches_at_once_than_places(tmp_path: Path) -> None:
    marks = Marks(str(tmp_path))
    held = [marks.of("/data/a").parsing(number, 1) for number in range(100)]
    for one in held:
        one.__enter__()
    for one in held:
        one.__exit__(None, None, None)
    with marks.of("/data/a").parsing(7, 1):
        (path,) = tmp_path.iterdir()
        content = path.read_bytes()
    assert len(content) == 256 * 32 and content.count(b"\0" * 32) >= 250
    marks.close()


def test_a_mark_that_cannot_be_erased_reaches_no_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk without space for a moment: the reader took the failure for one of its file, and the rest of the file was
    a dead letter. The stretch stays marked."""
    marks = Marks(str(tmp_path))
    write = os.pwrite
    with marks.of("/data/a").parsing(3, 1):
        monkeypatch.setattr(os, "pwrite", no_space)
    monkeypatch.setattr(os, "pwrite", write)
    with marks.of("/data/a").parsing(9, 2):
        (path,) = tmp_path.iterdir()
        content = path.read_bytes()
    assert content.count(b"\0" * 32) == 256 - 2
    marks.close()


def no_space(*given: object) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def struck(numbers: list[int], number: int, low: int, high: int) -> Iterator[list[int]]:
    for place in range(low, high):
        if place in numbers:
            os.kill(os.getpid(), number)
    yield list(range(low, high))


def failing(low: int, high: int) -> Iterator[int]:
    raise ValueError("no")


def test_numbers_that_end_a_process_stand_alone_in_the_end() -> None:
    made, fatal, deaths = in_child(partial(struck, [3, 4, 99], int(signal.SIGBUS)), 100)
    assert fatal == dict.fromkeys([3, 4, 99], "SIGBUS") and deaths > 3
    assert sorted(place for _, _, parts in made for part in parts for place in part) == [
        p for p in range(100) if p not in fatal
    ]
    assert in_child(partial(struck, [], 0), 5) == ([(0, 5, [[0, 1, 2, 3, 4]])], {}, 0)


@pytest.mark.parametrize("task", [partial(struck, [0], int(signal.SIGTERM)), failing])
def test_a_child_that_fails_in_another_way_is_an_error(task) -> None:
    with pytest.raises(SourceProblem, match="a child process that parses"):
        in_child(task, 3)
