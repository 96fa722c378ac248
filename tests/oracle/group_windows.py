"""Group windows in plain loops: which windows a row is in, and what each window holds.

Answer   `windows_of` gives the (start, end) pairs of TUMBLE, HOP and CUMULATE that hold an instant; `sessions_of` cuts
         times into sessions; `closed` gives per window and key what EMIT ON CLOSE reports once the frontier has passed
         the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Row = tuple[str | None, int | None, int]


def windows_of(kind: str, ts: int, spans: Sequence[int]) -> list[tuple[int, int]]:
    if kind == "tumble":
        span, offset = spans[0], spans[1] if len(spans) > 1 else 0
        start = (ts - offset) // span * span + offset
        return [(start, start + span)]
    step, span = spans
    if kind == "hop":
        return [
            (start, start + span)
            for start in range((ts - span) // step * step, ts + 1, step)
            if start <= ts < start + span
        ]
    start = ts // span * span
    return [(start, end) for end in range(start + step, start + span + 1, step) if ts < end]


def sessions_of(times: Sequence[int], gap: int) -> list[tuple[int, int]]:
    """Per time, in order, the session that it belongs to."""
    found: list[list[int]] = []
    for ts in times:
        if not found or ts - found[-1][-1] > gap:
            found.append([])
        found[-1].append(ts)
    return [(group[0], group[-1] + gap) for group in found for _ in group]


def last_instant(kind: str, end: int) -> int:
    """The last instant at which a row can come into a window that ends there: a row a whole gap later continues a
    session."""
    return end if kind == "session" else end - 1


def closed(kind: str, spans: Sequence[int], rows: Sequence[Row], frontier: int) -> list[tuple[Any, ...]]:
    """(start, end, key, rows, sum, values) of every window and key into which no row from the frontier on can come."""
    ordered = sorted(rows, key=lambda row: row[2])
    placed: dict[tuple[int, int, str | None], list[Row]] = {}
    for key in {row[0] for row in ordered}:
        mine = [row for row in ordered if row[0] == key]
        if kind == "session":
            windows = [[w] for w in sessions_of([ts for _, _, ts in mine], spans[0])]
        else:
            windows = [windows_of(kind, ts, spans) for _, _, ts in mine]
        for row, of_row in zip(mine, windows, strict=True):
            for start, end in of_row:
                placed.setdefault((start, end, key), []).append(row)
    out = []
    for (start, end, key), held in placed.items():
        if last_instant(kind, end) < frontier:
            values = [v for _, v, _ in held if v is not None]
            out.append((start, end, key, len(held), sum(values) if values else None, tuple(v for _, v, _ in held)))
    return out
