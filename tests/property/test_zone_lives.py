"""Zones and true heralds while plans move and jobs restart: the rows of a plain run without either."""

from __future__ import annotations

from random import Random

import pytest

from eddyline.language import bind_script
from eddyline.model.joining import Tree
from eddyline.runtime.engine.epoch import Arrival, Epoch
from eddyline.runtime.engine.pipeline import Pipeline
from eddyline.runtime.engine.records.kinds import Splitting
from eddyline.runtime.recovery.snapshot import restore, take_snapshot
from eddyline.settings import Settings
from eddyline.tuning import Tuning, ZoneTuning
from tests.property.clustered import DECLARED, World, random_world, with_heralds
from tests.seeds import cases, first_seed

LIVES = cases(12, soak=200)
FIRST = first_seed(161_000)
SMALL_ZONES = Settings(tuning=Tuning(zones=ZoneTuning(rows=8, least_rows=3)))


def drawn_tree(random: Random, leaves: list[Tree]) -> Tree:
    """Any tree over the positions."""
    leaves = list(leaves)
    while len(leaves) > 1:
        random.shuffle(leaves)
        count = random.randint(2, min(3, len(leaves)))
        leaves = [tuple(leaves[:count]), *leaves[count:]]
    return leaves[0]


def lived(world: World, mode: str, random: Random | None) -> tuple[dict[str, list[tuple[object, ...]]], int]:
    """The results of all queries, and how many rows broke a herald; with `random`, heralds come, trees move and the job
    restarts."""
    herald = "" if random is None else ", herald = 'said'"
    said = "" if random is None else ", said STRING"
    text = "".join(f"CREATE STREAM {name} ({DECLARED}{said}) WITH (time = 'ts'{herald});\n" for name in "abc")
    for number, (_, _, options) in enumerate(world.queries):
        wishes = {**options, "heralds": mode, "replan": "off"}
        listed = ", ".join(f"{name} = '{value}'" for name, value in wishes.items())
        text += f"CREATE QUERY q{number} WITH ({listed}) AS {world.text(number)};\n"
    job = bind_script(text, SMALL_ZONES)
    given = world.epochs if random is None else with_heralds(world, random, 0.0)[0].epochs

    def fresh() -> Pipeline:
        pipeline = Pipeline(job.streams, job.settings)
        for query in job.queries:
            pipeline.add_query(query)
        return pipeline

    pipeline, splitting = fresh(), Splitting(job.streams)
    found: dict[str, list[tuple[object, ...]]] = {query.name: [] for query in job.queries}
    for epoch in [*given, None]:
        arrivals = {}
        for name, rows in (epoch or {}).items():
            part, records, bad = splitting.split(pipeline.intakes[name].stream, rows)
            assert bad is None
            arrivals[name] = Arrival(part, None, records=tuple(records))
        outcome = pipeline.step(Epoch(arrivals, closing=epoch is None))
        for name, tables in outcome.results.items():
            found[name] += [tuple(row.values()) for table in tables for row in table.to_pylist()]
        if random is not None and epoch is not None:
            if random.random() < 0.5:
                snapshot = take_snapshot(pipeline)
                blocks = {name: make() for name, make in snapshot.blocks.items()}
                pipeline = fresh()
                restore(pipeline, snapshot.header, blocks.__getitem__)
            for group in pipeline.groups.values():
                if random.random() < 0.5:
                    pipeline.replant(group, drawn_tree(random, list(range(len(group.config.seats)))))
    return found, sum(intake.violations for intake in pipeline.intakes.values())


@pytest.mark.property
@pytest.mark.parametrize("life", range(LIVES))
def test_moves_restarts_and_true_heralds_change_no_answer(life: int) -> None:
    world = random_world(Random(FIRST + life), 8)
    plain, _ = lived(world, "off", None)
    found, violations = lived(world, "on" if life % 3 else "auto", Random(life))
    assert violations == 0
    for name, rows in plain.items():
        assert [row[-1] for row in found[name]] == [row[-1] for row in rows], name
        assert sorted(found[name]) == sorted(rows), (
            f"random_world(Random({FIRST + life}), 8): {world.text(int(name[1:]))}"
        )
