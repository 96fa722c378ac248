"""State of 2 GB in a process that may have 1 GB: with spilling the job ends with all results, without it for want of
memory."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from eddyline import Session

LIMIT = 1 << 30
EPOCHS, ROWS, WIDTH = 100, 15_000, 700
JOIN = "SELECT a.k AS k, length(a.t) AS n, b.x AS x FROM a [RANGE 30 MINUTES] a, b [RANGE 30 MINUTES] b WHERE a.k = b.k"


def main(how: str) -> None:
    """Push the rows; every thousandth row of b has a partner in a, which may lie on disk."""
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, LIMIT))
    options = {"memory_budget": "250 MB", "over_budget": "spill"} if how == "spill" else {}
    with Session() as session:
        session.execute("CREATE STREAM a (k BIGINT, t STRING, ts TIMESTAMP) WITH (time = 'ts', rate = 1000)")
        session.execute("CREATE STREAM b (k BIGINT, x BIGINT, ts TIMESTAMP) WITH (time = 'ts', rate = 10)")
        session.query("q", JOIN, **options)
        found = 0
        for epoch in range(EPOCHS):
            first = epoch * ROWS
            ts = pa.array((first + np.arange(ROWS)) * 1000).cast(pa.timestamp("us"))
            texts = pa.array([f"{number:07d}" * (WIDTH // 7) for number in range(first, first + ROWS)])
            session.push("a", pa.table({"k": np.arange(first, first + ROWS), "t": texts, "ts": ts}))
            # Rows of the whole past are asked for.
            asked = np.arange(0, first + 1, max(1, (first + 1) // 15))
            at = pa.array(np.full(len(asked), (first + ROWS) * 1000 - 1)).cast(pa.timestamp("us"))
            session.push("b", pa.table({"k": asked, "x": np.full(len(asked), epoch), "ts": at}))
            session.step()
            found += session.queries["q"].take().num_rows
        session.run(once=True)
        found += session.queries["q"].take().num_rows
        spilled = sum(session.stats()["spilled_bytes"].values())
    print(found, spilled)


@pytest.mark.long
@pytest.mark.timeout(0)
def test_spilling_under_a_limit_of_one_gigabyte() -> None:
    expected = sum(len(range(0, epoch * ROWS + 1, max(1, (epoch * ROWS + 1) // 15))) for epoch in range(EPOCHS))
    command = [sys.executable, "-m", "tests.runtime.test_spill_limit"]
    # Arrow's allocator otherwise reserves 1 GB of addresses on some machines, which count against the limit.
    environment = {**os.environ, "MIMALLOC_ARENA_RESERVE": "64MiB"}
    ended = subprocess.run([*command, "spill"], capture_output=True, text=True, check=False, env=environment)
    assert ended.returncode == 0, ended.stderr[-2000:]
    found, spilled = map(int, ended.stdout.split()[-2:])
    print(f"{found:,} results, {spilled / 1e6:,.0f} MB on disk")
    # The system holds the process to its limit: an allocation beyond it fails. Mapped files do not count.
    assert found == expected and spilled > 700e6
    # The same without spilling does not fit.
    assert subprocess.run([*command, "none"], capture_output=True, check=False, env=environment).returncode != 0


if __name__ == "__main__":
    main(sys.argv[1])
