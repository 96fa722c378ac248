"""How work is cut, drawn at random: no answer depends on it.

Answer   `drawn(rng)` is a `Tuning` under which results leave their epoch some at a time, pairs are found in small
         portions and a join is shared by few queries; or the one that all jobs have. `EDDYLINE_PIECES=3` lets every
         test of a run that says nothing of its tuning work with pieces of three results: `EDDYLINE_PIECES=3 pytest
         tests/property`.
Limits   The variable is for random suites; tests that count pieces, files or tables fail under it.
"""

from __future__ import annotations

import os
from random import Random

from eddyline.tuning import OutputTuning, PatternTuning, SchedulingTuning, SharingTuning, Tuning


def drawn(rng: Random) -> Tuning:
    held, pairs = rng.choice((1, 3, 3, 10, 250_000)), rng.choice((1, 5, 5, 1 << 20))
    # From `many_queries` on results of a join are made query by query; with few rows a schedule is left out.
    queries, rows = rng.choice((2, 8)), rng.choice((1, 256))
    return Tuning(
        pairs_at_once=pairs,
        results_at_once=rng.choice((16, 2_000_000)),
        results_held=held,
        patterns=PatternTuning(matches_at_once=min(held, 1 << 17), most_steps=rng.choice((3, 1 << 22))),
        sharing=SharingTuning(many_queries=queries),
        scheduling=SchedulingTuning(least_rows=rows, least_batch=2),
    )


def make_small(most: int = 0, file_rows: int = 0) -> None:
    """Let every tuning that this process makes from here on have pieces of so many results, and files of so many rows,
    unless it says
    otherwise; 0: as the variable says, which without it is as always."""
    most = most or int(os.environ.get("EDDYLINE_PIECES", "0"))
    if most:
        # The fields in their order: pairs_at_once, results_at_once, results_held.
        PatternTuning.__init__.__defaults__ = (most, *(PatternTuning.__init__.__defaults__ or ())[1:])
        Tuning.__init__.__defaults__ = (5, 16, most, *(Tuning.__init__.__defaults__ or ())[3:])
    if file_rows:
        OutputTuning.__init__.__defaults__ = (file_rows, *(OutputTuning.__init__.__defaults__ or ())[1:])
