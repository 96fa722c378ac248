"""Compiled kernels on disk: files that were cut short are written again, and processes that write at once do not mix
their files."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import combinations
from pathlib import Path
from threading import Condition
from typing import Any

import pytest
from numba.core.caching import IndexDataCacheFile

import eddyline
import eddyline.kernels

USE = """
import numpy as np
from eddyline.kernels.groups.sums import doubtful
print(doubtful(np.zeros(1, np.int64), np.zeros((1, 5))), sum(doubtful.stats.cache_hits.values()))
"""


def used(cache: Path, source: str = USE, **variables: str) -> str:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache)} | variables
    done = subprocess.run([sys.executable, "-c", source], env=environment, capture_output=True, text=True, timeout=480)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
def test_a_cache_that_was_cut_short_is_made_again(tmp_path: Path) -> None:
    assert used(tmp_path) == "[False] 0"
    for kind in ("nbi", "nbc"):
        (path,) = tmp_path.rglob(f"*doubtful*.{kind}")
        path.write_bytes(path.read_bytes()[:40])
        assert used(tmp_path) == "[False] 0"
    assert used(tmp_path) == "[False] 1"


BUCKETS = """
import numpy as np
from eddyline.kernels.groups.group import rehash
heads = np.full(8, -1, np.int64)
rehash(heads, np.full(8, -1, np.int64), np.arange(8).reshape(8, 1), np.arange(3))
print(heads.tolist(), sum(rehash.stats.cache_hits.values()))
"""


@pytest.mark.slow
def test_a_kernel_is_compiled_again_when_a_function_of_another_file_changes(tmp_path: Path) -> None:
    site, cache = tmp_path / "site", tmp_path / "cache"
    shutil.copytree(Path(eddyline.__file__).parent, site / "eddyline", ignore=shutil.ignore_patterns("__pycache__"))
    before, hits = used(cache, BUCKETS, PYTHONPATH=str(site)).rsplit(" ", 1)
    assert hits == "0"
    assert used(cache, BUCKETS, PYTHONPATH=str(site)) == f"{before} 1"
    hashing = site / "eddyline" / "kernels" / "hashing.py"
    text = hashing.read_text()
    hashing.write_text(text.replace("0xBF58476D1CE4E5B9", "0xBF58476D1CE4E5BB"))
    assert hashing.read_text() != text
    after, hits = used(cache, BUCKETS, PYTHONPATH=str(site)).rsplit(" ", 1)
    assert (after == before, hits) == (False, "0")


def opened(folder: Path, stamp: str = "source") -> Any:
    return IndexDataCacheFile(cache_path=str(folder), filename_base="kernel-1.py311", source_stamp=stamp)


STEPS = ["_load_index", "_save_index", "_open_for_write"]


class Turns:
    """Two threads that go on one step at a time, in a given order of threads; a thread whose partner is done goes on
    alone."""

    def __init__(self, order: Sequence[int]) -> None:
        self.order, self.done, self.changed = list(order), {0: False, 1: False}, Condition()

    def steps(self, kept: Any, thread: int) -> Any:
        for step in STEPS:
            setattr(kept, step, partial(self._step, thread, getattr(kept, step)))
        return kept

    def _step(self, thread: int, own: Callable[..., Any], *given: Any) -> Any:
        with self.changed:
            assert self.changed.wait_for(
                lambda: not self.order or self.order[0] == thread or self.done[1 - thread], timeout=240
            )
            found = own(*given)
            if self.order and self.order[0] == thread:
                self.order.pop(0)
            self.changed.notify_all()
        return found

    def run(self, thread: int, work: Callable[[], None]) -> None:
        work()
        with self.changed:
            self.done[thread] = True
            self.changed.notify_all()


ORDERS = sorted({tuple(int(at in chosen) for at in range(8)) for chosen in combinations(range(8), 4)})


@pytest.mark.parametrize("stale", [False, True])
def test_processes_that_write_at_once_never_change_what_a_signature_runs(stale: bool, tmp_path: Path) -> None:
    """Two caches save the code of two signatures, their steps in every order."""
    for number, order in enumerate(ORDERS):
        folder = tmp_path / str(number)
        folder.mkdir()
        if stale:
            opened(folder, "older source").save("texts", "old code of texts")
        turns = Turns(order)
        writers = [turns.steps(opened(folder), thread) for thread in (0, 1)]
        with ThreadPoolExecutor(2) as pool:
            for thread, (kept, key) in enumerate(zip(writers, ("texts", "whole numbers"), strict=True)):
                pool.submit(turns.run, thread, partial(kept.save, key, f"code of {key}"))
        assert all(turns.done.values())
        for key in ("texts", "whole numbers"):
            assert opened(folder).load(key) in (None, f"code of {key}"), order
        opened(folder).save("texts", "code of texts")
        opened(folder).save("whole numbers", "code of whole numbers")
        assert [opened(folder).load(key) for key in ("texts", "whole numbers")] == [
            "code of texts",
            "code of whole numbers",
        ], order


def test_code_that_was_changed_on_the_disk_is_compiled_again(tmp_path: Path) -> None:
    opened(tmp_path).save("texts", "code of texts")
    (path,) = tmp_path.glob("*.nbc")
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    assert opened(tmp_path).load("texts") is None


def test_code_of_older_sources_goes_when_new_code_is_written(tmp_path: Path) -> None:
    for stamp in ("one", "two", "three"):
        opened(tmp_path, stamp).save("texts", f"code of texts, source {stamp}")
        opened(tmp_path, stamp).save("whole numbers", f"code of whole numbers, source {stamp}")
    assert len(list(tmp_path.glob("*.nbc"))) == 2


SORTS = """
import os, sys
import numpy as np
import eddyline.kernels
from numba import njit

@njit(cache=True)
def sorts(values):
    values = values.copy()
    values.sort()
    return values

@njit(cache=True)
def orders(values):
    return np.argsort(values)

if sys.argv[1] == "fork" and os.fork():
    os.wait()
    sys.exit()
globals()[sys.argv[2]](np.arange(50)[::-1].copy())
"""


@pytest.mark.parametrize("how", ["begin", "fork"])
def test_sorts_that_two_processes_compile_have_names_of_their_own(how: str, tmp_path: Path) -> None:
    """Under one name the kernel of one process ran the sort of another: wrong answers, or the end of the process."""
    (tmp_path / "sorting.py").write_text(SORTS)
    for name in ("sorts", "orders"):
        subprocess.run([sys.executable, str(tmp_path / "sorting.py"), how, name], check=True, cwd=tmp_path)
    files = sorted(tmp_path.rglob("*.nbc"))
    assert len(files) == 2
    numbers = [{int(one) for one in re.findall(rb"run_quicksort1B\d+v(\d+)B", file.read_bytes())} for file in files]
    assert all(numbers) and min(abs(a - b) for a in numbers[0] for b in numbers[1]) > 1_000_000
