"""All features at once: the answers of a random world depend neither on epochs nor on settings, restarts, kills and
shards."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.property.world_flow import LARGEST, random_world
from tests.property.world_model import World
from tests.property.world_queries import COLUMNS, STREAMS
from tests.property.world_runs import settings_of
from tests.property.worlds import failing, report
from tests.seeds import cases, first_seed

FIRST = first_seed(3_000_000)
#: `python -m tests.property.worlds --minutes 60 --seed 1` goes on for as long as it is told to.
WORLDS = cases(4, soak=200)


@pytest.mark.property
@pytest.mark.parametrize("number", range(WORLDS))
def test_a_world_has_one_answer(number: int) -> None:
    assert not failing(random_world(FIRST + number)), report(FIRST + number)


KEPT = ("LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "NOT EXISTS")


def features(world: World) -> set[str]:
    """What a world has of the things that have broken answers."""
    names = [name for name, _ in COLUMNS]
    rows = [
        (i.uid, i.name, dict(zip(names, i.row, strict=True)))
        for i in world.flow
        if i.kind == "row" and i.name in STREAMS
    ]
    texts = [*(query.statement for query in world.queries), *world.before]
    kept = any(word in text for text in texts for word in KEPT)
    sums = any(
        f"{f}({p}d" in text for text in texts for f in ("sum", "avg") for p in ("", "a.", "DISTINCT ", "DISTINCT a.")
    )
    punctuated = any("punctuation" in options for options in world.options) or any(
        "CREATE PUNCTUATION" in text for text in texts
    )
    cuts = world.cuts(1)
    ends = [at for at, item in enumerate(world.flow) if item.uid in cuts or item.kind != "row"]
    ends = [at for at in ends if at < len(world.flow) - 1]
    last = {item.uid for item in world.flow[ends[-1] + 1 if ends else 0 :]}
    found = {
        "instants before the row": any(
            row["closes"] and row["ts"] is not None and row["closes"] < row["ts"] for _, _, row in rows
        ),
        "NULL keys of kept rows under punctuations": punctuated
        and kept
        and any(row["k"] is None and row["id"] for _, _, row in rows),
        "heartbeats": any(str(row["done"]).startswith("ts <= ") for _, _, row in rows),
        "heartbeats in the last epoch": any(
            uid in last and str(row["done"]).startswith("ts <= ") for uid, _, row in rows
        ),
        "extreme DECIMALs in sums": sums
        and any(row["d"] is not None and row["d"].copy_abs() == LARGEST for _, _, row in rows),
        "settings between runs": settings_of(world, 3, 0) != settings_of(world, 3, 1),
        "epochs of one item": len(cuts) == len(world.flow),
        "epochs of several items": 0 < len(cuts) < len(world.flow),
        "other epochs in another run": not world.late and cuts != world.cuts(2),
        "queries that come or go": any(item.kind != "row" for item in world.flow),
        "requests": world.asks,
    }
    return {name for name, holds in found.items() if holds}


def test_worlds_have_what_has_broken_answers() -> None:
    """Counted, so that a change of the generator takes none of it away: each in at least a tenth of the worlds."""
    counts = Counter(name for seed in range(100) for name in features(random_world(seed)))
    assert len(counts) == 11 and min(counts.values()) >= 10, counts
