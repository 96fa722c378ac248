"""Sessions one after the other in one program: nothing is left of those before."""

from __future__ import annotations

import gc
import time
from pathlib import Path

import psutil
import pytest

from eddyline import Session


@pytest.mark.parametrize("kept", [False, True], ids=["in memory", "on a checkpoint"])
def test_many_starts_and_stops_leave_no_thread_and_no_handle(tmp_path: Path, kept: bool) -> None:
    me, seen = psutil.Process(), []
    for number in range(10):
        with Session(checkpoint=str(tmp_path / "state") if kept else None) as session:
            session.execute("CREATE STREAM a (k BIGINT, ts TIMESTAMP) WITH (time = 'ts')")
            session.query("sums", "SELECT k, COUNT(*) AS n FROM a [RANGE 1 SECOND] GROUP BY k")
            session.dashboard()
            session.start()
            session.push("a", [(n % 5, (100 * number + n + 1) * 1000) for n in range(100)])
            while session.stats()["rows_in"]["a"] < 100:
                time.sleep(0.01)
        gc.collect()
        seen.append((me.num_threads(), me.num_fds()))
    assert seen[9] == seen[3] == seen[6], seen
