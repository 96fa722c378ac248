"""Punctuations never change an answer: on, off and the oracle agree, row for row; with lies as if the violating rows
were not there.

Answer   A case has one to three streams with promises drawn from their rows, and three joins over them, each asked for
         as it is, grouped with EMIT ON CLOSE, and with `propagate = on`. Every case runs with punctuations on and off.
         Cases also run with other trees, just-in-time joins, restarts, stores on disk, and on simulated shards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from eddyline import Session
from eddyline.language import bind_script
from eddyline.settings import Settings
from eddyline.tuning import PunctuationTuning, Tuning
from tests.property.promise_answers import expected
from tests.property.promises import Case, declare, outcome, push, random_case
from tests.property.test_aggregates import Blocks, restarted
from tests.property.test_migration import replant_some, spill_some
from tests.seeds import cases, first_seed

#: A case is a query in a world of its own streams, whose whole answer is compared with the oracle. A world has nine or
#: ten of them. A round of a soak has 221 worlds with 2,090 cases, on and off, and 51 worlds with 483 cases among
#: restarts, other trees, stores on disk, and queries that come and go.
BLOCK = 17
BLOCKS = cases(8, soak=13)
FIRST = first_seed(1_500_000)
#: Every aggregate looks for finished groups, however few there are.
HASTY = Tuning(punctuations=PunctuationTuning(least_groups=0))


def run(
    case: Case, settings: Settings, between: Callable[[Session], object] = lambda _: None, final: bool = False
) -> tuple[dict[str, list[object]], object, dict[str, Any]]:
    with Session(settings) as session:
        declare(session, case)
        for epoch in range(case.epochs):
            push(session, case, epoch)
            # What comes last is read with the end of the run, or before it.
            if epoch + 1 < case.epochs or case.epochs % 4:
                session.step()
                between(session)
        session.run(once=True, final=final)
        return outcome(session, case)


def settings_of(rng: Random) -> Settings:
    return Settings(
        purge=rng.choice(("eager", "eager", "auto", "2")),
        jit=rng.choice(("auto", "exact", "bloom", "off")),
        plan=rng.choice(("auto", "mjoin", "bjtree")),
        share=rng.choice(("on", "off")),
        tuning=HASTY,
    )


def drawn(block: int, offset: int = 0) -> list[tuple[int, Case]]:
    seeds = range(FIRST + offset + block * BLOCK, FIRST + offset + (block + 1) * BLOCK)
    return [(seed, random_case(Random(seed), lies=seed % 2 == 1, beats=seed % 3 == 0)) for seed in seeds]


def declared(case: Case) -> frozenset[str]:
    """The streams that may have punctuations."""
    streams = bind_script(";\n".join(case.declarations())).streams
    return frozenset(stream.name for stream in streams if stream.is_punctuated)


@pytest.mark.property
@pytest.mark.parametrize("block", range(BLOCKS))
def test_punctuations_change_no_answer(block: int) -> None:
    purged = dropped = 0
    for seed, case in drawn(block):
        final = seed % 4 < 2
        wanted = expected(case, declared(case) if final else None)
        chosen, changes = settings_of(Random(seed)), []
        for settings in (chosen, Settings(punctuations="off", tuning=HASTY)):
            results, letters, stats = run(case, settings, final=final)
            if settings.punctuations == "off":
                # Nothing is announced.
                wanted = (
                    {name: [] if name.startswith("told") else found for name, found in wanted[0].items()},
                    wanted[1],
                )
            changes.append(
                {name: results.pop(name) for name in [name for name in results if name.startswith("changing")]}
            )
            assert (results, letters) == wanted, f"random_case(Random({seed})) with {settings.changed()}"
            # Epoch by epoch the same changes, whether or not groups that are finished are forgotten.
            assert changes[0] == changes[-1], f"random_case(Random({seed})) with {settings.changed()}"
            purged, dropped = purged + stats["purged_rows"], dropped + stats["dropped_rows"]
    assert purged and dropped


@pytest.mark.property
@pytest.mark.parametrize("block", range(cases(3)))
def test_restarts_trees_disks_and_other_queries_change_no_answer(block: int, tmp_path: Path) -> None:
    for seed, case in drawn(block, 500_000):
        rng, blocks = Random(seed), Blocks()

        def between(session: Session, case: Case = case, rng: Random = rng, blocks: Blocks = blocks) -> None:
            rng.choice(
                (
                    lambda: restarted(session, blocks),
                    lambda: replant_some(session, rng),
                    lambda: spill_some(session, rng, tmp_path),
                    lambda: come_and_go(session, case, rng),
                )
            )()

        results, letters, _ = run(case, settings_of(rng), between)
        wanted = expected(case)
        late = {name: found for name, found in results.items() if name.startswith("late")}
        results = {name: found for name, found in results.items() if not name.startswith(("changing", "late"))}
        assert (results, letters) == wanted, f"random_case(Random({seed}))"
        for name, found in late.items():
            # A query that came later has results of rows that came after it.
            assert not Counter(found) - Counter(wanted[0][f"joined{name[4:].split('x')[0]}"]), (
                f"random_case(Random({seed}))"
            )


def come_and_go(session: Session, case: Case, rng: Random) -> None:
    """A query over the same streams comes, or goes again."""
    there = [name for name in session.queries if name.startswith("late")]
    if there and rng.random() < 0.5:
        session.drop(rng.choice(there))
    else:
        number = rng.randrange(len(case.asks))
        session.query(f"late{number}x{rng.randrange(1 << 30)}", case.asks[number].select)
