"""A random world through the engines: in one life, through kills and restarts with other settings, and over shards.

Answer   `straight` runs it in one session, `lives` in several on one checkpoint, of which some are given up, `sharded`
         on simulated shards. Each gives the results of every query in the order of delivery, and the dead letters of
         every stream.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pyarrow.parquet as parquet

from eddyline import Session
from eddyline.connectors.results.output import result_files
from eddyline.errors import UserError
from eddyline.runtime.control.control import ControlFolder
from eddyline.runtime.control.control_record import add_record, drop_record
from eddyline.runtime.embedded.checkpoint import Checkpoint
from eddyline.settings import Settings
from eddyline.testing.clocks import MovedClock
from tests.memory import folder_of_a_case
from tests.oracle.intake import Values
from tests.property.compare import plain_rows
from tests.property.pieces import drawn
from tests.property.world_model import Item, World
from tests.spark.simulated import Simulated

#: Settings that never change an answer, with their values.
NEUTRAL: dict[str, tuple[object, ...]] = {
    "jit": ("off", "bloom", "exact", "auto"),
    "jit_control": ("one-sided", "probes", "chain", "auto"),
    "plan": ("auto", "mjoin", "bjtree"),
    "probe": ("hash", "loop"),
    "route": ("fixed", "lottery"),
    "scheduler": ("lwo", "swf", "mqt"),
    "share": ("on", "off"),
    "replan": ("on", "off"),
    "plan_search": ("two-layer", "finder", "mjoin", "bjtree"),
    "heralds": ("auto", "on", "off"),
    "punctuations": ("on", "off"),
    "purge": ("auto", "eager", 1, 3),
    "template_index": ("auto", "scan", "imp", "hash(k)"),
    "template_tuning": ("on", "off"),
    "template_batch": ("on", "off"),
    "constraints": ("prune", "check"),
    "seed": (0, 7),
    "output_files": ("auto", "each"),
    "output_order": ("auto", "merged", "by-shard"),
    "output_seconds": (0, 2),
    "checkpoint_seconds": (0, 5),
    "batch_seconds": (0.5, 2),
    "max_rows_per_batch": ("none", 50),
    "epoch_rows": (1, 3, 20_000, 20_000),
    "most_results": (1, 20, 1_000_000),
    "most_matches": ("none", 1_000_000),
    "cpu_budget": ("none", "1000000000000 cores"),
    "memory_budget": ("none", "900000000 TB"),
    "row_groups": ("on", "off"),
}


@dataclass
class Outcome:
    results: dict[str, list[Values]] = field(default_factory=dict)
    #: Per stream the first words of reasons and the values.
    dead: dict[str, list[tuple[str, Values]]] = field(default_factory=dict)
    #: Why queries that were to come did not: a job on Spark takes none that its shards cannot answer without more
    #: steps.
    refused: list[str] = field(default_factory=list)


def _letters(rows: list[Values]) -> list[tuple[str, Values]]:
    return [
        (str(row["_reason"]).split()[0].rstrip(":,;"), {k: v for k, v in row.items() if k != "_reason"}) for row in rows
    ]


def straight(
    world: World, variant: int = 0, beat: bool = False, cores: int | None = None, ends: bool = True
) -> Outcome:
    """One session, an epoch per cut; with `beat` heartbeats far ahead stand in for the end of the streams;
    without `ends` they go on in any case."""
    cuts = world.cuts(variant)
    refused: list[str] = []
    with Session(cut_of(world, variant, 0), cores=cores) as session:
        session.execute(";\n".join(world.statements(world.first)))
        handles = {name: session.queries[name] for name in world.results if name in session.queries}
        waiting: dict[str, list[Item]] = {}

        def step() -> None:
            for stream, items in waiting.items():
                session.push(stream, world.arrow(stream, items))
            waiting.clear()
            session.step()

        for item in world.flow:
            if item.kind == "row":
                waiting.setdefault(item.name, []).append(item)
                if item.uid in cuts:
                    step()
                continue
            step()
            if item.kind == "add":
                try:
                    session.execute(world.statement(item.name))
                    handles[item.name] = session.queries[item.name]
                except UserError as problem:
                    # With one core no query is refused: its results are missing then.
                    refused.append(str(problem.detail))
            elif item.name in handles:
                session.drop(item.name)
        step()
        if beat:
            session.advance(to="2200-01-01")
        session.run(once=True, final=world.final and ends and not beat)
        found = Outcome({name: plain_rows(handle.results()) for name, handle in handles.items()}, refused=refused)
        driver = session.driver if session.is_one_process else session._runner.driver  # type: ignore[attr-defined]
        kept = driver.delivery.kept_dead or {}
        found.dead = {name: _letters(plain_rows(kept.get(name, ()))) for name in world.streams}
        return found


def settings_of(world: World, variant: int, start: int) -> list[str]:
    """The settings of one start: some of those that never change an answer; in every second variant each start has
    others."""
    rng = Random(f"{world.seed} {variant} settings {start if variant % 2 else 0}")
    chosen = {name: rng.choice(values) for name, values in NEUTRAL.items() if rng.random() < 0.5}
    if world.late:
        chosen.pop("epoch_rows", None)
    return [f"SET {name} = {value if isinstance(value, int) else repr(value)}" for name, value in chosen.items()]


def cut_of(world: World, variant: int, start: int) -> Settings:
    """How a start cuts its work: results in pieces, pairs in portions; the first run of a world cuts nothing."""
    rng = Random(f"{world.seed} {variant} cut {start if variant % 2 else 0}")
    return Settings(tuning=drawn(rng)) if variant else Settings()


def lives(world: World, variant: int) -> Outcome:
    """Sessions on one checkpoint, which end in order or are given up; each start has other settings."""
    clock = MovedClock()
    with folder_of_a_case() as folder:
        start = 0
        while not _live(world, variant, start, folder, clock):
            start += 1
            assert start < 100, "the world does not end"
        found = Outcome()
        for name in world.results:
            files = result_files(f"{folder}/out/{name}")
            found.results[name] = plain_rows(parquet.read_table(path) for _, _, path in files)
        for name in world.streams:
            files = result_files(f"{folder}/out/_dead_letter/{name}")
            found.dead[name] = _letters(plain_rows(parquet.read_table(path) for _, _, path in files))
        return found


def _live(world: World, variant: int, start: int, folder: str, clock: MovedClock) -> bool:
    """One session; whether the world has come to its end. Queries come and go by control records, which a later session
    knows of."""
    cuts = world.cuts(variant)
    often = Random(f"{world.seed} {variant} often").choice((0.05, 0.15, 0.4))
    saved = Checkpoint(f"{folder}/checkpoint").load()
    positions, done = ({}, 0) if saved is None else (saved.positions, int((saved.control or {"applied": 0})["applied"]))
    # Rows of a read that was taken in part come again, and the reader passes them over.
    passed = {name: int(positions[name]["source"]["row"]) if name in positions else 0 for name in world.streams}
    session = Session(
        cut_of(world, variant, start),
        checkpoint=f"{folder}/checkpoint",
        out=f"{folder}/out",
        clock=clock,
        keep_results=False,
    )
    session.execute(";\n".join([*settings_of(world, variant, start), *world.statements(world.first)]))
    for item in world.flow:
        if item.kind == "row":
            if passed[item.name]:
                passed[item.name] -= 1
                continue
            session.push(item.name, world.arrow(item.name, [item]))
            if item.uid not in cuts:
                continue
            session.step()
        else:
            done -= 1
            if done >= 0:
                continue
            session.step_pending()
            record = add_record(world.statement(item.name)) if item.kind == "add" else drop_record([item.name])
            ControlFolder(f"{folder}/checkpoint").append(record)
            session.step()
        clock.advance(5.0 if world.chance("clock", item.uid, variant + start) < 0.4 else 0.0)
        ends = world.chance(f"end {start}", item.uid, variant)
        if ends < often:
            session.stop() if ends < often / 3 else session._runner.abandon()
            return False
    session.step_pending()
    session.run(once=True, final=world.final)
    session.stop()
    return True


def sharded(world: World, variant: int) -> Outcome:
    """Simulated shards: a micro-batch per cut, drivers that die, starts with other settings."""
    rng = Random(f"{world.seed} {variant} shards")
    cuts, shards, crashes = world.cuts(variant), rng.choice((1, 2, 3, 5)), rng.choice((0.0, 0.2))
    statements = world.statements(world.first)
    with folder_of_a_case() as folder:
        text, cut = ";\n".join([*settings_of(world, variant, 0), *statements]), cut_of(world, variant, 0)
        job = Simulated(text, str(Path(folder) / "ck"), shards, rng, settings=cut)
        waiting: dict[str, list[Item]] = {}
        starts = 0

        def step() -> None:
            job.run({stream: world.arrow(stream, items) for stream, items in waiting.items()}, crashes=crashes)
            waiting.clear()

        for item in world.flow:
            if item.kind == "row":
                waiting.setdefault(item.name, []).append(item)
                if item.uid in cuts:
                    step()
            else:
                step()
                if item.kind == "add":
                    job.add(world.statement(item.name))
                else:
                    job.drop(item.name)
                job.settle(crashes=crashes)
            if not waiting and world.chance("start", item.uid, variant) < 0.15:
                starts += 1
                job.settings = cut_of(world, variant, starts)
                job.start(";\n".join([*settings_of(world, variant, starts), *statements]))
        step()
        job.run(closing=True, crashes=crashes)
        found = Outcome({name: plain_rows([job.table(name)]) for name in world.results if name in job.sinks})
        found.refused = [str(why) for why in job.folder.state()["refused"].values()]
        found.dead = {
            name: [(reason.split()[0].rstrip(":,;"), row) for reason, row in job.letters(name)]
            for name in world.streams
        }
        job.close()
        return found
