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


@pytest.mark.parametrize("epochs", [1_000, pytest.param(EPOCHS, marks=pytest.mark.long)])
def test_nothing_grows_with_the_number_of_epochs(epochs: int, tmp_path: Path) -> None:
    session = Session(checkpoint=str(tmp_path / "state"), out=str(tmp_path / "out"), keep_results=False)
    session.execute(
        JOB if epochs <= 20_000 else JOB.replace("seconds = 0.2", "seconds = 2").replace("seconds = 0.1", "seconds = 1")
    )
    seconds, memory, files = [], [], []
    tenth = epochs // 10
    for number in range(epochs):
        rows = [(number % 7, float(number % 5), number * 50_000)]
        began = time.thread_time()
        session.push("bids", rows)
        session.push("asks", rows)
        session.step()
        seconds.append(time.thread_time() - began)
        if number % 100 == 99:
            memory.append(resident())
            files.append(files_below(tmp_path / "state"))
        if number % tenth == tenth - 1:
            print(
                f"{number + 1:,} epochs: {1e3 * median(seconds[-tenth:]):.2f} ms, {memory[-1] / 1e6:.0f} MB, {files[-1]} files",
                flush=True,
            )
    session.stop()

    def grown(values: list[float]) -> float:
        part = max(1, len(values) // 10)
        return median(values[-part:]) / median(values[part : 2 * part])

    # The work of an epoch is counted in CPU seconds of this thread; a loaded machine still moves it by some percent.
    assert grown(seconds) <= (1.05 if epochs > 10 * 1_000 else 1.3), [
        median(seconds[i * tenth : (i + 1) * tenth]) for i in range(10)
    ]
    assert grown([float(size) for size in memory]) <= 1.05, memory
    assert max(files[len(files) // 2 :]) <= 1.5 * max(files[: len(files) // 2]) + 5, files
