"""A case through shards without Spark: packed, assembled, stepped, written down and reopened, merged.

Answer   `run_sharded(case, shards, seed)` is the outcome of as many shard pipelines, each of which is now and then
         forgotten and opened again from its header and blobs, as a worker that lost its cache does.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet

from eddyline.connectors.files.files import read_table
from eddyline.connectors.memory import MemorySource
from eddyline.language import bind_script
from eddyline.operators.expressions.evaluate import Issues
from eddyline.operators.expressions.own_functions import register
from eddyline.plan.shards.shares import route_all
from eddyline.runtime.sharded.ingest.packer import Packer
from eddyline.runtime.sharded.ingest.packet import from_blob, to_blob
from eddyline.runtime.sharded.job.layout import JobLayout
from eddyline.runtime.sharded.job.ledger import tables_folder
from eddyline.runtime.sharded.job.static_table import keep
from eddyline.runtime.sharded.output.delivery import whole_results
from eddyline.runtime.sharded.shard.assembly import assemble
from eddyline.runtime.sharded.shard.pipeline import ShardPipeline
from tests.property.compare import Outcome, plain_rows
from tests.property.specs import Case


def run_sharded(case: Case, shards: int = 3, seed: int = 0) -> Outcome:
    with TemporaryDirectory() as directory:
        for table in case.tables:
            parquet.write_table(case.arrow_rows(table.name, table.rows), f"{directory}/{table.name}.parquet")
        return _run(case, shards, Random(seed), directory)


def case_layout(case: Case, shards: int, directory: str) -> JobLayout:
    job = bind_script(";\n".join(case.statements(directory)))
    for own in job.catalog.functions.values():
        register(own)
    routing = route_all(job.queries, [s.name for s in job.streams], {}, shards)
    return JobLayout(
        streams=tuple(job.streams),
        queries=tuple(job.queries),
        routing=routing,
        labels=tuple(range(shards * routing.steps)),
        steps=routing.steps,
        checkpoint=directory,
        spool=str(Path(directory) / "spool"),
        tables=tuple(keep(tables_folder(directory), table, read_table(table)) for table in job.tables),
        settings=job.settings,
    )


class _Shard:
    """One shard with its state as a worker would keep it."""

    def __init__(self, layout: JobLayout, number: int, random: Random):
        self.layout, self.number, self.random = layout, number, random
        self.engine = ShardPipeline.open(layout, None, _no_blocks)
        self.engine.shard = number
        self.header = "null"
        self.blobs: dict[str, bytes] = {}

    def step(self, packets: list[Any]) -> Any:
        if self.random.random() < 0.4 and self.header != "null":
            self.engine = ShardPipeline.open(
                self.layout, json.loads(self.header), lambda name: from_blob(self.blobs[name])
            )
            self.engine.shard = self.number
        assembled = assemble(self.layout, packets, self.engine.bounds())
        self.engine.control(self.layout, assembled.control)
        outcome = self.engine.step(assembled.epoch)
        snapshot = self.engine.snapshot()
        self.blobs = {name: self.blobs.get(name) or to_blob(table()) for name, table in snapshot.blocks.items()}
        self.header = json.dumps(snapshot.header)
        return outcome


def _no_blocks(name: str) -> pa.Table:
    raise AssertionError(f"block {name} asked for without a header")


def _run(case: Case, shards: int, random: Random, directory: str) -> Outcome:
    layout = case_layout(case, shards, directory)
    packer = Packer(layout)
    workers = [_Shard(layout, number, random) for number in range(layout.shards)]
    results: dict[str, list[pa.Table]] = {q.name: [] for q in layout.queries}
    dead: dict[str, list[pa.Table]] = {s.name: [] for s in layout.streams}
    place = 0
    for number, (epoch, idle) in enumerate(zip([*case.epochs(), None], [*case.idle(), frozenset()], strict=True)):
        said = {"closing": True} if epoch is None else {"idle": sorted(idle)}
        made = [packer.control(json.dumps(said).encode(), 0)]
        for kept in layout.tables:
            if kept.table.refresh is not None:
                rows = case.arrow_rows(kept.table.name, case.source(kept.table.name).rows_at(number))
                parquet.write_table(rows, f"{directory}/{kept.table.name}.parquet")
                again = keep(tables_folder(directory), kept.table, read_table(kept.table))
                made.append(
                    packer.control(
                        json.dumps({"refresh": {"table": kept.table.name, "digest": again.digest}}).encode(), 1
                    )
                )
        for name, rows in (epoch or {}).items():
            source = MemorySource(layout.streams[layout.numbers[name]])
            source.push(case.arrow_rows(name, rows))
            chunk = source.read(1 << 30)
            assert chunk is not None or not rows
            if chunk is None:
                continue
            cut = random.randrange(chunk.rows.num_rows + 1)
            pieces = [(chunk.rows.slice(0, cut), chunk.bad, 0), (chunk.rows.slice(cut), None, cut)]
            for part, bad, first in pieces:
                made.append(packer.pack(name, part, bad, place, False, first))
                place += 1
        random.shuffle(made)
        packets = [SimpleNamespace(**row) for batch in made for row in batch.to_pylist()]
        if not packets:
            packets = [SimpleNamespace(**row) for row in packer.control(b"{}", 0).to_pylist()]
        outcomes = []
        for worker in workers:
            outcomes.append(worker.step([p for p in packets if p.shard == worker.number]))
            for (stream, maker), rows in outcomes[-1].handed.items():
                packets += [SimpleNamespace(**packet) for packet in packer.hand_on(stream, maker, worker.number, rows)]
        for name in results:
            used = [
                pa.concat_tables(o.results[name])
                for i, o in enumerate(outcomes)
                if o.results.get(name) and layout.routing.routings[name].uses(i)
            ]
            if used:
                results[name].append(whole_results(used, workers[0].engine.pipeline.queries[name].merging, Issues()))
        for outcome in outcomes:
            for name, tables in outcome.dead.items():
                dead[name] += tables
    out = Outcome()
    out.results = {name: plain_rows(tables) for name, tables in results.items()}
    for name, tables in dead.items():
        letters = plain_rows(tables)
        out.dead[name] = [(str(row["_reason"]), {k: v for k, v in row.items() if k != "_reason"}) for row in letters]
    return out
