"""An epoch costs what it touches: rows, results and what expires, not what is stored.

Counted, not timed: the bytes that an epoch allocates at most, at 2,000 and at 20,000 stored rows per stream. An array as
long as what is stored shows at once. Epochs in which arrays grow are left out by the middle of several.
"""

from __future__ import annotations

import tracemalloc

import pytest

from bench.micro.kinds import QUERIES, ROWS, give, job_of
from eddyline import Session


def allocated(kind: str, stored: int) -> int:
    session = Session(keep_results=False)
    session.execute(job_of(kind, stored))
    sizes, first = [], 0
    for count in (stored, *[ROWS] * 5):
        give(session, kind, first, count, stored)
        tracemalloc.start()
        session.step()
        sizes.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        first += count
    assert session.stats()["rows_in"]["a"] == first and not len(session.dead_letters("a"))
    return sorted(sizes[1:])[2]


@pytest.mark.parametrize("kind", QUERIES)
def test_an_epoch_allocates_as_much_for_ten_times_the_state(kind: str) -> None:
    assert allocated(kind, 20_000) <= 1.1 * allocated(kind, 2_000) + 2_000
