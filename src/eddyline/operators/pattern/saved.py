"""A book written down: arrays as bytes, the payload of events as it is, and what waits.

Answer   `saved_book` gives a JSON value and named blocks; `restore_book` brings a book with the same rules and queries
         to that state.
Limits   Queries that have gone since are left out; machines are found again by the names of their queries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.kernels.patterns.automaton_arrays import HELD, OPEN_RUNS
from eddyline.operators.pattern.book import TraceBook
from eddyline.operators.pattern.matcher import Matches

Blocks = dict[str, Callable[[], pa.Table]]


def saved_book(book: TraceBook, name: str) -> tuple[dict[str, Any], Blocks]:
    """The state of a book; blocks are named after `name`, which no other state has."""
    arrays, payload = book.state.saved()
    ids = book.encoder.ids()
    offsets, data = book.encoder.strings(ids)
    live = book.codes.live()
    arrays |= {
        "words.ids": ids,
        "words.offsets": offsets,
        "words.data": data,
        "codes": live,
        "keys": book.codes.keys[live],
    }
    for query in book.queries.values():
        arrays |= {f"waiting.{query.config.name}.{part}": values for part, values in vars(query.waiting).items()}
    packed = _packed(arrays)
    blocks: Blocks = {f"{name}-arrays": lambda: packed}
    if payload is not None:
        blocks[f"{name}-events"] = lambda: payload.combine_chunks()
    machines = {q.config.name: [q.machines.start, len(q.machines)] for q in book.queries.values()}
    return {
        "blocks": name,
        "has_events": payload is not None,
        "machines": machines,
        "violations": book.violations,
        "rows_in": book.rows_in,
        "candidates": {q.config.name: q.candidates for q in book.queries.values()},
    }, blocks


def restore_book(book: TraceBook, state: Any, load: Callable[[str], pa.Table]) -> None:
    arrays = _unpacked(load(f"{state['blocks']}-arrays"))
    payload = load(f"{state['blocks']}-events").combine_chunks() if state["has_events"] else None
    book.encoder.restore(arrays["words.ids"], arrays["words.offsets"], arrays["words.data"], 0)
    book.codes.restore(arrays["codes"], arrays["keys"])
    book.state.restore(
        {n: a for n, a in arrays.items() if not n.startswith(("words.", "waiting.", "codes", "keys"))}, payload
    )
    book.violations, book.rows_in = state["violations"], state["rows_in"]
    moved, gone = _moved(book, state["machines"])
    runs = book.state.runs
    runs.machine[:] = moved[np.clip(runs.machine, 0, len(moved) - 1)] if len(moved) else 0
    if gone:
        _let_go(book, arrays)
    book.state.wide(len(book.table.columns))
    for query in book.queries.values():
        if query.config.name in state["machines"]:
            parts = {part: arrays[f"waiting.{query.config.name}.{part}"].copy() for part in vars(query.waiting)}
            parts["machine"] = moved[parts["machine"]] if len(parts["machine"]) else parts["machine"]
            query.waiting = Matches(**parts)
            query.candidates = state["candidates"][query.config.name]
    book.state.need({name: book.config.columns[name].arrow for name in book.needed()})


def _moved(book: TraceBook, machines: dict[str, list[int]]) -> tuple[np.ndarray, bool]:
    """Old numbers of machines to new ones; those of queries that have gone lead behind the last."""
    last = max((first + count for first, count in machines.values()), default=0)
    moved = np.full(last, -1, np.int64)
    for name, (first, count) in machines.items():
        if name in book.queries:
            moved[first : first + count] = np.arange(
                book.queries[name].machines.start, book.queries[name].machines.stop
            )
    return moved, any(name not in book.queries for name in machines)


def _let_go(book: TraceBook, arrays: dict[str, np.ndarray]) -> None:
    """Runs of queries that have gone, and what waited for them, hold no events any more."""
    # Their links and blocks stay unused: without the machine it is not known how many there are.
    state = book.state
    refs = np.zeros_like(state.events.refs)
    for code in np.flatnonzero(state.traces.open):
        before, run = -1, int(state.traces.run[code])
        while run >= 0:
            following = int(state.runs.next[run])
            if state.runs.machine[run] < 0:
                state.count[OPEN_RUNS] -= 1
                if before < 0:
                    state.traces.run[code] = following
                else:
                    state.runs.next[before] = following
            else:
                _count(book, run, refs)
                before = run
            run = following
    for query in book.queries.values():
        waiting = arrays.get(f"waiting.{query.config.name}.ids")
        if waiting is not None:
            np.add.at(refs, waiting[waiting >= 0], 1)
    state.events.refs[:] = refs
    state.count[HELD] = np.count_nonzero(refs)


def _count(book: TraceBook, run: int, refs: np.ndarray) -> None:
    """The events that a run holds."""
    state = book.state
    block = int(state.runs.block[run])
    for head in range(block, block + int(book.table.kernel.size[state.runs.machine[run]])):
        link = int(state.runs.heads[head])
        while link >= 0:
            refs[state.links.event[link]] += 1
            link = int(state.links.next[link])


def _packed(arrays: dict[str, np.ndarray]) -> pa.Table:
    return pa.table(
        {
            "name": pa.array(list(arrays), pa.string()),
            "type": pa.array([a.dtype.str for a in arrays.values()], pa.string()),
            "shape": pa.array([",".join(map(str, a.shape)) for a in arrays.values()], pa.string()),
            "data": pa.array([np.ascontiguousarray(a).tobytes() for a in arrays.values()], pa.large_binary()),
        }
    )


def _unpacked(table: pa.Table) -> dict[str, np.ndarray]:
    found = {}
    for name, kind, shape, data in zip(
        *(table.column(c).to_pylist() for c in ("name", "type", "shape", "data")), strict=True
    ):
        sizes = tuple(int(size) for size in shape.split(",") if size)
        found[name] = np.frombuffer(data, np.dtype(kind)).reshape(sizes).copy()
    return found
