"""A case through shards in this process: packed, stepped, written down and reopened, merged.

Answer   `run_sharded(case, shards, seed)` is the outcome of as many shards, each of which is now and then forgotten and
         opened again from its objects, as a process that has lost it does.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet

from eddyline.connectors.files.files import read_table
from eddyline.connectors.memory import MemorySource
from eddyline.language import bind_script
from eddyline.operators.expressions.evaluate import Issues
from eddyline.operators.expressions.own_functions import register
from eddyline.plan.shards.shares import route_all
from eddyline.runtime.sharded.batch import BatchDocument
from eddyline.runtime.sharded.conducting import Batches
from eddyline.runtime.sharded.ingest.needed import latest_bounds
from eddyline.runtime.sharded.ingest.packer import Packer
from eddyline.runtime.sharded.ingest.packet import Packet
from eddyline.runtime.sharded.job.layout import JobLayout, PackedLayout
from eddyline.runtime.sharded.job.ledger import tables_folder
from eddyline.runtime.sharded.job.static_table import keep
from eddyline.runtime.sharded.output.merging import merged_in_pieces
from eddyline.runtime.sharded.output.parcels import Parcel, opened
from eddyline.runtime.sharded.phases import Phases, left_out_of
from eddyline.runtime.sharded.shard.engines import forget
from eddyline.runtime.sharded.shard.pipeline import model_pipeline
from eddyline.runtime.sharded.storage.heads import Head
from tests.memory import folder_of_a_case
from tests.property.compare import Outcome, plain_rows
from tests.property.specs import Case
from tests.spark.conducted import conductor


def run_sharded(case: Case, shards: int = 3, seed: int = 0) -> Outcome:
    with folder_of_a_case() as directory:
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
        width=shards,
        steps=routing.steps,
        checkpoint=directory,
        tables=tuple(keep(tables_folder(directory), table, read_table(table)) for table in job.tables),
        settings=job.settings,
    )


def in_pieces(table: pa.Table, random: Random) -> Iterator[pa.Table]:
    """A table in pieces of a few rows."""
    at = 0
    while at < len(table):
        rows = random.choice((0, 1, 2, 5, 1000))
        yield table.slice(at, rows)
        at += rows


def _run(case: Case, shards: int, random: Random, directory: str) -> Outcome:
    layout = case_layout(case, shards, directory)
    packed, packer = PackedLayout.of(layout), Packer(layout)
    functions = bind_script(";\n".join(case.statements(directory))).catalog.functions.values()
    phases = Phases(packed, most_engines=shards)
    conducting = conductor(phases, lambda: random.random() < 0.4, functions)
    batches, model = Batches(directory, layout.shards), model_pipeline(layout)
    results: dict[str, list[pa.Table]] = {q.name: [] for q in layout.queries}
    dead: dict[str, list[pa.Table]] = {s.name: [] for s in layout.streams}
    place, said = 0, frozenset[str]()
    for number, (epoch, idle) in enumerate(zip([*case.epochs(), None], [*case.idle(), frozenset()], strict=True)):
        # In batches without control records tasks leave out rows that no query can use.
        control: list[dict[str, Any]] = [{"closing": True}] if epoch is None else []
        if epoch is not None and (idle != said or random.random() < 0.3):
            control.append({"idle": sorted(idle)})
            said = idle
        for kept in layout.tables:
            if kept.table.refresh is not None:
                rows = case.arrow_rows(kept.table.name, case.source(kept.table.name).rows_at(number))
                parquet.write_table(rows, f"{directory}/{kept.table.name}.parquet")
                again = keep(tables_folder(directory), kept.table, read_table(kept.table))
                control.append({"refresh": {"table": kept.table.name, "digest": again.digest}})
        packable: list[tuple[str, pa.Table, pa.Table | None, int, int]] = []
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
                packable.append((name, part, bad, place, first))
                place += 1

        def planned(head: Head | None) -> tuple[BatchDocument, None]:
            before, bounds = ({}, {}) if head is None else (head.before, latest_bounds(head.notes.values()))
            batch = BatchDocument(number, packed.digest, control=tuple(control), before=before, late_below=bounds)  # noqa: B023
            return batch, None

        def run(batch: BatchDocument) -> list[Parcel]:
            packets: list[Packet] = []
            for name, part, bad, at, first in packable:  # noqa: B023
                _, wanted = left_out_of(packed, layout.streams[layout.numbers[name]], batch)
                packets += packer.pack(name, part, bad, at, False, first, wanted=wanted)
            random.shuffle(packets)
            return conducting.run(batch, packets)

        tables: dict[str, list[pa.Table]] = {}
        for parcel in batches.parcels(number, str(number), planned, run):
            if parcel.kind == "result":
                tables.setdefault(parcel.name, []).append(opened(parcel.path, parcel.blob))
            elif parcel.kind == "dead":
                dead[parcel.name].append(opened(parcel.path, parcel.blob))
        for name, used in tables.items():
            merging = model.queries[name].merging
            results[name] += (
                merged_in_pieces([in_pieces(table, random) for table in used])
                if merging is None
                else [merging(used, Issues())]
            )
    forget(directory)
    out = Outcome()
    out.results = {name: plain_rows(tables) for name, tables in results.items()}
    for name, tables in dead.items():
        letters = plain_rows(tables)
        out.dead[name] = [(str(row["_reason"]), {k: v for k, v in row.items() if k != "_reason"}) for row in letters]
    return out
