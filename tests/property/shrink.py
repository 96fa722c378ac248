"""A failing case made small.

Answer   `shrink(case, fails)` leaves out queries, epochs, rows, conditions and outputs as long as the case still fails.
Limits   Greedy: what is left cannot lose any one part, but a smaller case of another shape may exist.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from tests.oracle.expressions import aliases
from tests.oracle.relational import Reference
from tests.property.specs import Case, QuerySpec


def shrink(
    case: Any,
    fails: Callable[[Any], bool],
    *,
    seconds: float = 60.0,
    smaller: Callable[[Any], Iterator[Any]] | None = None,
) -> Any:
    """The smallest failing case that is found in the given time. `fails` says whether a case (still) fails; `smaller`
    leaves things out."""
    until = time.monotonic() + seconds
    found = True
    while found and time.monotonic() < until:
        found = False
        for candidate in (smaller or _smaller)(case):
            if time.monotonic() > until:
                break
            if fails(candidate):
                case, found = candidate, True
                break
    return case


def _smaller(case: Case) -> Iterator[Case]:
    """Cases with something left out, large parts first."""
    for i in range(len(case.queries)):
        if len(case.queries) > 1:
            yield replace(case, queries=case.queries[:i] + case.queries[i + 1 :])
    sources = {r.source for q in case.queries for r in q.references}
    for i, table in enumerate(case.tables):
        if table.name not in sources:
            yield replace(case, tables=case.tables[:i] + case.tables[i + 1 :])
    for i, stream in enumerate(case.streams):
        if stream.name not in sources:
            kept = tuple(tuple(part for part in epoch if part[0] != stream.name) for epoch in case.arrivals)
            yield replace(case, streams=case.streams[:i] + case.streams[i + 1 :], arrivals=kept)
    yield from _fewer_rows(case)
    for i, query in enumerate(case.queries):
        for plainer in _plainer(query):
            yield replace(case, queries=case.queries[:i] + (plainer,) + case.queries[i + 1 :])
    for i, stream in enumerate(case.streams):
        if stream.lateness:
            yield replace(case, streams=case.streams[:i] + (replace(stream, lateness=0),) + case.streams[i + 1 :])


def _fewer_rows(case: Case) -> Iterator[Case]:
    epochs = case.arrivals
    for width in (len(epochs) // 2, len(epochs) // 4, 1):
        for at in range(0, len(epochs), width) if width else ():
            yield replace(case, arrivals=epochs[:at] + epochs[at + width :])
    if len(epochs) > 1:
        for at in range(len(epochs) - 1):
            merged: dict[str, tuple[tuple[object, ...], ...]] = {}
            for name, rows in (*epochs[at], *epochs[at + 1]):
                merged[name] = merged.get(name, ()) + rows
            yield replace(case, arrivals=epochs[:at] + (tuple(merged.items()),) + epochs[at + 2 :])
    for at, epoch in enumerate(epochs):
        for i, (name, rows) in enumerate(epoch):
            for j in range(len(rows)):
                left = rows[:j] + rows[j + 1 :]
                part = ((name, left),) if left else ()
                yield replace(case, arrivals=epochs[:at] + (epoch[:i] + part + epoch[i + 1 :],) + epochs[at + 1 :])


def _plainer(query: QuerySpec) -> Iterator[QuerySpec]:
    for i in range(len(query.where)):
        yield replace(query, where=query.where[:i] + query.where[i + 1 :])
    if query.having is not None:
        yield replace(query, having=None)
    for i, (_, e) in enumerate(query.outputs):
        if len(query.outputs) > 1 and e not in query.group_by:
            yield replace(query, outputs=query.outputs[:i] + query.outputs[i + 1 :])
    spoken = {a for e in (*query.where, *(e for _, e in query.outputs), *query.group_by) for a in aliases(e)}
    for i, reference in enumerate(query.references):
        if (
            len(query.references) > 1
            and reference.alias not in spoken
            and _has_stream(query.references[:i] + query.references[i + 1 :])
        ):
            yield replace(query, references=query.references[:i] + query.references[i + 1 :], plan="auto")
    for name, plain in (
        ("plan", "auto"),
        ("probe", "hash"),
        ("joins_written", False),
        ("window_last", False),
        ("by_set", False),
    ):
        if getattr(query, name) != plain:
            yield replace(query, **{name: plain})


def _has_stream(references: tuple[Reference, ...]) -> bool:
    return any(r.window is not None for r in references)
