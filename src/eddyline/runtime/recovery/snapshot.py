"""A pipeline written down: a small header and named, immutable blocks of rows.

Answer   `take_snapshot` gives the header (plain JSON) and the names of all blocks that the header names, each with a
         function that makes its Arrow table. A block never changes, so the driver writes it once. `restore` brings a
         fresh pipeline with the same queries to exactly that state: it rebuilds indexes and intermediate stores from the
         live rows.
State    None.
Limits   The queries must have been added with the slots and starts of the header (`saved_queries`). The caller checks
         that the streams are those of the snapshot (`stream_identity`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from eddyline.runtime.engine.pipeline import Pipeline
from eddyline.runtime.engine.timeline import Timeline
from eddyline.runtime.engine.units.kinds import KINDS
from eddyline.runtime.recovery.checkpoint_identity import of_another_format
from eddyline.runtime.recovery.store_snapshot import restore_store, saved_store, store_content
from eddyline.runtime.recovery.waiting_snapshot import (
    chunk_name,
    gate_content,
    restore_gate,
    restore_queue,
    saved_gate,
    saved_queue,
)

#: Changes when a snapshot of an older version could no longer be read.
FORMAT = 8

#: Attributes of an intake that a snapshot has under the same names.
_INTAKE = ("newest", "closed", "arrived", "rows_in", "late", "bad", "violations", "promised", "told")

Header = dict[str, Any]
Load = Callable[[str], pa.Table]


@dataclass(frozen=True)
class Snapshot:
    header: Header
    blocks: Mapping[str, Callable[[], pa.Table]]


def take_snapshot(pipeline: Pipeline) -> Snapshot:
    blocks: dict[str, Callable[[], pa.Table]] = {}
    streams = {
        name: {attribute: getattr(intake, attribute) for attribute in _INTAKE}
        for name, intake in pipeline.intakes.items()
    }
    gates = {name: saved_gate(gate, blocks) for name, gate in pipeline.gating.gates.items()}
    stores = {state.name: saved_store(pipeline.supplies[state.name], blocks) for state in pipeline.stores()}
    timelines = [_saved_timeline(timeline, blocks) for timeline in pipeline.timelines.values()]
    states = {}
    for unit in pipeline.kinds.units():
        for name, (state, tables) in unit.snapshot().items():
            states[name] = state
            blocks.update(tables)
    queries = {
        query.name: {
            "text": query.query.identity,
            "slot": query.slot,
            "start": query.start,
            "stop": query.stop,
            "results": query.results,
            "triggers": pipeline.triggers.changed(query.name),
            "state": states.get(query.name),
        }
        for query in pipeline.queries.values()
    }
    header: Header = {
        "format": FORMAT,
        "frontier": pipeline.frontier,
        "epochs": pipeline.epochs,
        "over": pipeline.over,
        "peak_rows": pipeline.held.peak_rows,
        "peak_bytes": pipeline.held.peak_bytes,
        "streams": streams,
        "gates": gates,
        "announced": sorted(pipeline.gating.announced),
        "stores": stores,
        "timelines": timelines,
        "queries": queries,
        "units": {name: state for name, state in states.items() if name not in pipeline.queries},
        "plans": pipeline.planner.saved(),
        "tables": pipeline.versions.saved(blocks),
        "united": {name: united.saved(blocks) for name, united in pipeline.derived.united.items()},
    }
    return Snapshot(header, blocks)


def _saved_timeline(timeline: Timeline, blocks: dict[str, Callable[[], pa.Table]]) -> dict[str, Any]:
    streams = {}
    for name, queue in timeline.queues.items():
        # Two timelines in which the same rows wait share one block.
        waiting = saved_queue(queue, f"{name}-of-{timeline.name}", blocks)
        streams[name] = {**waiting, "records": timeline.records[name].saved(blocks)}
    closed, made = timeline.closings.snapshot(timeline.name)
    blocks.update(made)
    return {"frontier": timeline.frontier, "next_rank": timeline.next_rank, "streams": streams, "closed": closed}


def _saved_streams(header: Header) -> list[tuple[str, dict[str, Any]]]:
    """Per timeline and stream, the name of the stream and its part of the header."""
    return [(name, stream) for timeline in header["timelines"] for name, stream in timeline["streams"].items()]


def live_rows(header: Header) -> int:
    """Rows in the segments of a snapshot."""
    return sum(end - first for store in header["stores"].values() for first, end, _ in store["segments"])


def saved_queries(header: Header) -> dict[str, dict[str, Any]]:
    """The queries of a snapshot: text, slot, start, stop."""
    check_format(header)
    return dict(header["queries"])


def pass_on(header: Header, here: Collection[str]) -> None:
    """Before a start with the queries `here` only: pass the state of dropped queries to the queries that need it."""
    for kind in KINDS:
        kind.pass_on(header, here)


def waiting_blocks(header: Header) -> list[str]:
    """The blocks of rows that wait for the frontier."""
    held = [*_saved_streams(header), *header["gates"].items()]
    return list(dict.fromkeys(chunk_name(name, token) for name, stream in held for _, token in stream["waiting"]))


def block_content(header: Header, block: str) -> str:
    """A text for errors: what a block of a snapshot holds."""
    for name, store in header["stores"].items():
        if content := store_content(name, store, block):
            return content
    for name, stream in _saved_streams(header):
        if any(block == chunk_name(name, token) for _, token in stream["waiting"]):
            return f"rows of stream {name} that wait for the frontier"
        if block == stream["census"]:
            return f"the count of waiting rows of stream {name}"
        if block in stream["records"]:
            return f"records of stream {name} that wait for the frontier"
    for name, gate in header["gates"].items():
        if content := gate_content(name, gate, block):
            return content
    for name, query in header["queries"].items():
        for kind in KINDS:
            if content := kind.block_content(name, query["state"] or {}, block):
                return content
    for name, lines in header.get("united", {}).items():
        if any(block == named for _, named in lines):
            return f"values that a part of stream {name} has finished"
    for name, table in header.get("tables", {}).items():
        if any(block == version for version, _, _ in table["versions"]):
            return f"a version of table {name}"
    return f"the block {block}"


def check_format(header: Header) -> None:
    if header.get("format") != FORMAT:
        raise of_another_format("the checkpoint", header.get("format"), FORMAT)


def restore(pipeline: Pipeline, header: Header, load: Load) -> None:
    check_format(header)
    # Older checkpoints have no `over`: their runs left their streams open.
    pipeline.epochs, pipeline.over = header["epochs"], header.get("over", False)
    pipeline.held.peak_rows, pipeline.held.peak_bytes = header["peak_rows"], header["peak_bytes"]
    for name, saved in header["streams"].items():
        if name not in pipeline.intakes:
            # The stream of a query that the job no longer has.
            continue
        # Older checkpoints have no `told`: rows that break an earlier heartbeat are then late.
        saved = {"told": None, **saved}
        for attribute in _INTAKE:
            setattr(pipeline.intakes[name], attribute, saved[attribute])
    pipeline.gating.announced = set(header["announced"])
    for name, saved in header["gates"].items():
        restore_gate(pipeline.gating.open(name), saved, load)
    for saved in header["timelines"]:
        timeline = pipeline.timelines.get(frozenset(saved["streams"]))
        if timeline is not None:
            _restore_timeline(timeline, saved, load)
    for name, saved in header["stores"].items():
        if name in pipeline.supplies:
            restore_store(pipeline.supplies[name], saved, load)
    for name in pipeline.gating.gates.keys() - header["gates"].keys():
        # Punctuations that were declared after the snapshot hold for rows that wait, too.
        pipeline.gating.reopen(name)
    for name, saved in header.get("united", {}).items():
        if name in pipeline.derived.makers:
            pipeline.derived.of_parts(pipeline.intakes[name].stream).restore(saved, load)
    pipeline.versions.restore(header.get("tables", {}), load)
    for query in tuple(pipeline.queries.values()):
        saved = header["queries"][query.name]
        query.results = saved["results"]
        if saved.get("triggers"):
            pipeline.triggers.resume(query.name, saved["triggers"])
        if saved["stop"] is not None:
            pipeline.stop_query(query.name, saved["stop"])
    for kind in pipeline.kinds.all:
        kind.after_restore()
    for unit in pipeline.kinds.units():
        unit.restore(
            {**header.get("units", {}), **{name: header["queries"][name]["state"] for name in unit.queries}}, load
        )
    # A group continues with the tree that it had at the snapshot.
    plans = pipeline.planner.restored(header.get("plans", {}))
    for signature, group in pipeline.groups.items():
        pipeline.replant(group, *plans.get(signature, (group.tree, None)))


def _restore_timeline(timeline: Timeline, saved: Mapping[str, Any], load: Load) -> None:
    timeline.frontier, timeline.next_rank = saved["frontier"], saved["next_rank"]
    for name, kept in saved["streams"].items():
        restore_queue(timeline.queues[name], kept, load)
        timeline.records[name].restore(kept["records"], load)
    timeline.closings.restore(saved["closed"], load)
