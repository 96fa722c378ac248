"""What a snapshot writes and allocates depends on what the epochs since the last one changed, not on what is stored.

Counted: the bytes of the blocks that a snapshot adds and of its header, and the bytes that it allocates at most, at 2,000
and at 20,000 stored rows per stream for each kind of query of `bench/micro/kinds.py`; at 100,000 and at 3 million as a long
test. Without the list of segments of each store, which are 65,536 rows each. Now and then blocks become one: these
snapshots are left out by the middle of several, and `test_row_blocks` holds how often it happens. The first snapshot writes everything.
"""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Mapping
from typing import Any

import pytest

from bench.micro.kinds import QUERIES, ROWS, give, job_of
from eddyline import Session
from eddyline.runtime.recovery.snapshot import take_snapshot
from eddyline.runtime.sharded.ingest.packet import to_blob

#: Bytes that are allocated for the line of a segment in a header.
LINE = 560


def costs(kind: str, stored: int) -> tuple[int, int]:
    """The bytes that a snapshot writes, and those that it allocates at most; without those for the segments."""
    session = Session(keep_results=False)
    session.execute(job_of(kind, stored))
    written, allocated, first, known = [], [], 0, set()
    for count in (stored, *[ROWS] * 5):
        give(session, kind, first, count, stored)
        session.step()
        tracemalloc.start()
        snapshot = take_snapshot(session.pipeline)
        fresh = [len(to_blob(block())) for name, block in snapshot.blocks.items() if name not in known]
        lines = list_lines(snapshot.header)
        written.append(sum(fresh) + len(json.dumps(snapshot.header)) - len(json.dumps(lines)))
        allocated.append(tracemalloc.get_traced_memory()[1] - LINE * sum(map(len, lines)))
        tracemalloc.stop()
        known = set(snapshot.blocks)
        first += count
    assert session.stats()["rows_in"]["a"] == first and not len(session.dead_letters("a"))
    return sorted(written[1:])[2], sorted(allocated[1:])[2]


def list_lines(header: Mapping[str, Any]) -> list[Any]:
    """What a header says of each segment: that it is there, and the places of its rows in partitions."""
    partitions = [state["rows"] for name, state in header["units"].items() if name.startswith("partition ")]
    return [*(store["segments"] for store in header["stores"].values()), *partitions]


def compare(kind: str, few: int, many: int) -> None:
    (written, allocated), (more_written, more_allocated) = costs(kind, few), costs(kind, many)
    assert more_written <= 1.1 * written and more_allocated <= 1.1 * allocated + 2_000


@pytest.mark.parametrize("kind", QUERIES)
def test_a_snapshot_costs_as_much_for_ten_times_the_state(kind: str) -> None:
    compare(kind, 2_000, 20_000)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", QUERIES)
def test_a_snapshot_costs_as_much_for_three_million_rows(kind: str) -> None:
    compare(kind, 100_000, 3_000_000)
