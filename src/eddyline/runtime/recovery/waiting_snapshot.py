"""Waiting rows in a snapshot: the queues of timelines and gates, and the records among the rows.

Answer   `saved_queue` and `saved_gate` give their part of the header of a snapshot and add the blocks. `restore_queue` and
         `restore_gate` read them again.
State    None.
Limits   A chunk of rows that waits in several queues has one block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.operators.stream.gate import Gate
from eddyline.operators.stream.intake import event_times
from eddyline.operators.stream.waiting import Waiting, WaitingRows

Blocks = dict[str, Callable[[], pa.Table]]
Load = Callable[[str], pa.Table]


def saved_queue(queue: WaitingRows, store: str, blocks: Blocks) -> dict[str, Any]:
    """The part of a queue in the header; `store` begins the name of its block."""
    for chunk in queue.chunks:
        blocks[chunk_name(queue.stream.name, chunk.token)] = partial(_chunk_table, chunk)
    census = None
    if queue.census is not None:
        census = _census_name(store, queue)
        blocks[census] = partial(_census_table, queue)
    return {"released": queue.released, "waiting": [[c.first, c.token] for c in queue.chunks], "census": census}


def restore_queue(queue: WaitingRows, saved: Mapping[str, Any], load: Load) -> None:
    queue.released = saved["released"]
    for first, token in saved["waiting"]:
        table = load(chunk_name(queue.stream.name, token))
        routes = np.asarray(table.column("_routes")).astype(np.uint64) if "_routes" in table.column_names else None
        rows = table.select([c for c in table.column_names if c not in ("_number", "_routes")]).combine_chunks()
        ts = event_times(rows, queue.stream.time)
        queue.chunks.append(Waiting(rows, ts, np.asarray(table.column("_number")), routes, first, token))
    if saved["census"] is not None:
        table = load(saved["census"])
        queue.census = (np.asarray(table.column("ts")), np.asarray(table.column("number")))


def saved_gate(gate: Gate, blocks: Blocks) -> dict[str, Any]:
    """The part of a gate: the rows and records that wait in it, and the states of its checkers."""
    states = {}
    for kind, checker in gate.checkers.items():
        states[kind], tables = checker.snapshot()
        blocks.update(tables)
    waiting = saved_queue(gate.queue, f"{gate.stream.name}-gate", blocks)
    return {**gate.saved(), **waiting, "records": gate.records.saved(blocks), "checkers": states}


def restore_gate(gate: Gate, saved: Mapping[str, Any], load: Load) -> None:
    restore_queue(gate.queue, saved, load)
    gate.records.restore(saved["records"], load)
    gate.restore(saved)
    for kind, checker in gate.checkers.items():
        # A checker that the snapshot does not have begins empty: it knows no earlier rows.
        if kind in saved["checkers"]:
            checker.restore(saved["checkers"][kind], load)


def gate_content(name: str, gate: Mapping[str, Any], block: str) -> str | None:
    """A text for errors: what a block of a gate holds; None: the block is of another gate."""
    if any(block == chunk_name(name, token) for _, token in gate["waiting"]) or block == gate["census"]:
        return f"rows of stream {name} that wait to be checked"
    if block in gate["records"]:
        return f"records of stream {name} that wait for the frontier"
    return None


def chunk_name(stream: str, token: str) -> str:
    return f"{stream}-waiting-{token}"


def _chunk_table(chunk: Waiting) -> pa.Table:
    table = chunk.table.append_column("_number", pa.array(chunk.number))
    return table if chunk.routes is None else table.append_column("_routes", pa.array(chunk.routes))


def _census_name(store: str, queue: WaitingRows) -> str:
    assert queue.census is not None
    return f"{store}-census-{len(queue.census[0])}-{int(queue.census[1].max(initial=-1))}-{queue.released}"


def _census_table(queue: WaitingRows) -> pa.Table:
    assert queue.census is not None
    return pa.table({"ts": queue.census[0], "number": queue.census[1]})
