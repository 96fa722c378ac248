"""Many tiny epochs: memory, folders and the work of an epoch stay what they were.

EDDYLINE_EPOCHS says how many a long run has (20,000 without it).
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from statistics import median

import pytest

from eddyline import Session

#: Epochs of a long run.
EPOCHS = int(os.environ.get("EDDYLINE_EPOCHS", "20000"))
JOB = """
SET checkpoint_seconds = 0.2; SET output_seconds = 0.1;
CREATE STREAM bids (item BIGINT, price DOUBLE, ts TIMESTAMP) WITH (time = 'ts');
CREATE STREAM asks (item BIGINT, price DOUBLE, ts TIMESTAMP) WITH (time = 'ts');
CREATE QUERY dear AS SELECT item FROM bids WHERE price > 3;
CREATE QUERY pairs AS SELECT b.item FROM bids [RANGE 1 SECOND] b, asks [RANGE 1 SECOND] a WHERE a.item = b.item;
CREATE QUERY totals AS SELECT item, COUNT(*) AS n, MAX(price) AS top FROM bids [RANGE 1 SECOND] GROUP BY item;
"""


def resident() -> int:
    """Bytes of memory that this process holds."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def files_below(folder: Path) -> int:
    return sum(len(files) for _, _, files in os.walk(folder))


class Life:
    """A session that takes one epoch after the other."""

    def __init__(self, folder: Path, job: str) -> None:
        self.state, self.epochs = folder / "state", 0
        self.session = Session(checkpoint=str(self.state), out=str(folder / "out"), keep_results=False)
        self.session.execute(job)

    def step(self) -> float:
        """One epoch; returns its CPU seconds."""
        began = time.thread_time()
        self.push()
        self.session.step()
        self.epochs += 1
        return time.thread_time() - began

    def push(self) -> None:
        rows = [(self.epochs % 7, float(self.epochs % 5), self.epochs * 50_000)]
        self.session.push("bids", rows)
        self.session.push("asks", rows)


def cost_against(old: Life, young: Life, turns: int) -> float:
    """What an epoch of one session costs against one of the other, a hundred epochs of each in turns: a machine whose
    load changes meanwhile slows both."""
    ratios = [median(old.step() for _ in range(100)) / median(young.step() for _ in range(100)) for _ in range(turns)]
    return median(ratios)


@pytest.mark.parametrize("epochs", [1_000, pytest.param(EPOCHS, marks=pytest.mark.long)])
def test_nothing_grows_with_the_number_of_epochs(epochs: int, tmp_path: Path) -> None:
    job = (
        JOB if epochs <= 20_000 else JOB.replace("seconds = 0.2", "seconds = 2").replace("seconds = 0.1", "seconds = 1")
    )
    old = Life(tmp_path / "old", job)
    memory, files = [], []
    for number in range(epochs):
        old.step()
        if number % 100 == 99:
            memory.append(resident())
            files.append(files_below(old.state))
    part = max(1, len(memory) // 10)
    assert median(memory[-part:]) <= 1.05 * median(memory[part : 2 * part]), memory
    assert max(files[len(files) // 2 :]) <= 1.5 * max(files[: len(files) // 2]) + 5, files
    young = Life(tmp_path / "young", job)
    for _ in range(100):
        young.step()
    is_short = epochs <= 1_000
    cost = cost_against(old, young, 3 if is_short else 11)
    print(
        f"{epochs:,} epochs, {memory[-1] / 1e6:.0f} MB, {files[-1]} files; one against that of a young session: {cost:.3f}"
    )
    assert cost <= (1.3 if is_short else 1.05)
    for life in (old, young):
        life.session.stop()
