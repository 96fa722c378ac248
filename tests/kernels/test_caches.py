"""Compiled kernels on disk: files that were cut short are written again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

USE = """
import numpy as np
from eddyline.kernels.sums import doubtful
print(doubtful(np.zeros(1, np.int64), np.zeros((1, 5))), sum(doubtful.stats.cache_hits.values()))
"""


def used(cache: Path) -> str:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run([sys.executable, "-c", USE], env=environment, capture_output=True, text=True, timeout=120)
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
