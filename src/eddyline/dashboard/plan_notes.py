"""What was counted, written on the parts of a plan: rates and selectivities on edges, stored rows in boxes.

Answer   `plan_notes` gives a note for every part of a shape: rows per second, share of combinations that go on, rows
         held now. Where the job counts them, also what demand holds back, zones skip and punctuations purge.
State    None.
Limits   Rates are those of the last seconds, shares of joins those since the start, shares of streams those of the last
         seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from eddyline.dashboard.feed import Document, Feed
from eddyline.plan.picture import Note, name_of
from eddyline.plan.shape import Part


def plan_notes(feed: Feed, shape: Part, zones: Mapping[str, int] | None = None) -> dict[str, Note]:
    """`zones`: what all joins of the plan together skipped and passed as a whole."""
    document = feed.document
    assert document is not None
    notes = {name_of(part): _note(feed, document, part) for part in shape.all()}
    top = next((part for part in shape.all() if part.kind == "join"), None)
    if zones and top is not None:
        said = [f"{name.replace('_', ' ')} {count:,}" for name, count in zones.items()]
        notes[name_of(top)] = replace(notes[name_of(top)], lines=(*notes[name_of(top)].lines, *said))
    return notes


def _note(feed: Feed, document: Document, part: Part) -> Note:
    stats = document["stats"]
    if part.kind in ("stream", "table"):
        stored = [f"{document['stores'][part.key]:,} rows stored"] if part.key in document["stores"] else []
        return Note((*stored, *_purged(stats, part.key)), _passing(feed, stats, part))
    operator = stats["operators"].get(part.key)
    if operator is None:
        return Note()
    rate = feed.rate(lambda one: one["stats"]["operators"].get(part.key, {}).get("rows_out"))
    if part.kind == "results":
        return Note(
            (f"{operator['rows_out']:,} results", *([f"{_number(rate)} per second"] if rate is not None else []))
        )
    lines = [f"{document['stores'][part.key]:,} rows stored"] if part.key in document["stores"] else []
    lines += _held_back(stats["demand"], part.key)
    share = f" · {_share(operator['rows_out'], operator['rows_in'])}" if operator["rows_in"] else ""
    return Note(tuple(lines), _rows(rate, operator["rows_out"]) + share)


def _passing(feed: Feed, stats: Mapping[str, Any], part: Part) -> str:
    """The rows of a stream that go on to the part above, and their share of the rows that came."""

    def counted(which: int) -> tuple[float | None, int | None]:
        name, key = part.passing[which] if part.passing else "", ("rows_in", "rows_out")[which]
        return feed.rate(lambda one: one["stats"]["operators"].get(name, {}).get(key)), stats["operators"].get(
            name, {}
        ).get(key)

    (coming, came), (going, gone) = counted(0), counted(1)
    if came is None or gone is None:
        return _rows(feed.rate(lambda one: one["stats"]["rows_in"].get(part.key)), stats["rows_in"].get(part.key))
    # Rates of the last seconds: a query that was added late has seen only a part of all rows.
    share = _share(going, coming) if coming and going is not None else _share(gone, came) if came else ""
    return _rows(going, gone) + (f" · {share}" if share else "")


def _held_back(demand: Mapping[str, Any], key: str) -> list[str]:
    """What just-in-time joins hold back at a node, behind it and before it, on all shards."""
    names = (key, f"{key} admission")
    shards = (
        [demand]
        if any(name in demand for name in names)
        else [one for one in demand.values() if isinstance(one, Mapping)]
    )
    edges = [one[name] for one in shards for name in names if name in one]
    if not edges:
        return []
    listening = sum(edge["state"] == "listening" for edge in edges)
    where = "" if listening == len(edges) else f" at {listening} of {len(edges)} places"
    said = [f"demand: listens{where}" if listening else "demand: makes everything"]
    avoided = sum(edge["partials_avoided"]["estimate"] for edge in edges)
    held = sum(edge["suspensions"] - edge["resumptions"] for edge in edges)
    return said + ([f"held back {max(held, 0):,}, about {avoided:,} not made"] if avoided or held > 0 else [])


def _purged(stats: Mapping[str, Any], stream: str) -> list[str]:
    """How many punctuations a stream has brought, and how many of its rows broke one."""
    found = stats.get("punctuations", {}).get(stream)
    broken = stats.get("violations", {}).get(stream)
    return ([f"{found:,} punctuations"] if found else []) + ([f"{broken:,} rows broke one"] if broken else [])


def _rows(rate: float | None, total: float | None) -> str:
    if rate is not None:
        return f"{_number(rate)} rows/s"
    return "" if total is None else f"{int(total):,} rows"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:.2g}"


def _share(out: float, came: float) -> str:
    """How many go on for each that comes: a percentage, or a factor.

    >>> _share(1, 8), _share(30, 10)
    ('12.5 %', '× 3')
    """
    ratio = out / came
    return f"{100 * ratio:.3g} %" if ratio <= 1 else f"× {ratio:.3g}"
