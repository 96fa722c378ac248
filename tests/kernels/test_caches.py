"""Compiled kernels on disk: files that were cut short are written again."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import eddyline

USE = """
import numpy as np
from eddyline.kernels.sums import doubtful
print(doubtful(np.zeros(1, np.int64), np.zeros((1, 5))), sum(doubtful.stats.cache_hits.values()))
"""


def used(cache: Path, source: str = USE, **variables: str) -> str:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache)} | variables
    done = subprocess.run([sys.executable, "-c", source], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["nbi", "nbc"])
def test_a_cache_that_was_cut_short_is_made_again(kind: str, tmp_path: Path) -> None:
    assert used(tmp_path) == "[False] 0"
    assert used(tmp_path) == "[False] 1"
    (path,) = tmp_path.rglob(f"*doubtful*.{kind}")
    path.write_bytes(path.read_bytes()[:40])
    assert used(tmp_path) == "[False] 0"
    assert used(tmp_path) == "[False] 1"


BUCKETS = """
import numpy as np
from eddyline.kernels.group import rehash
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
