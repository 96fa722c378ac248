"""Notes on the parts of a drawn plan: rates and selectivities on edges, stored rows in boxes.

Answer   `plan_notes` gives a note for every part of a shape: rows per second, rows out per row in, stored rows. Where the
         job counts them, also rows that demand holds back, zones skip and punctuations purge.
State    None.
Limits   Rates, and shares of streams, are those of the last seconds; shares of joins those since the start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from eddyline.dashboard.feed import Document, Feed
from eddyline.plan.picture import Note, name_of
from eddyline.plan.shape import Part


def plan_notes(feed: Feed, shape: Part, zones: Mapping[str, int] | None = None) -> dict[str, Note]:
    """`zones`: stretches of rows that all joins of the plan together skipped or passed as a whole."""
    document = feed.document
    assert document is not None
    notes = {name_of(part): _note(feed, document, part) for part in shape.all()}
    top = next((part for part in shape.all() if part.kind == "join"), None)
    if zones and top is not None:
        lines = [f"{name.replace('_', ' ')} {count:,}" for name, count in zones.items()]
        note = notes[name_of(top)]
        notes[name_of(top)] = replace(note, lines=(*note.lines, *lines))
    return notes


def _note(feed: Feed, document: Document, part: Part) -> Note:
    stats = document["stats"]
    stored = [f"{document['stores'][part.key]:,} rows stored"] if part.key in document["stores"] else []
    if part.kind in ("stream", "table"):
        return Note((*stored, *_punctuated(stats, part.key)), _passing(feed, stats, part))
    operator = stats["operators"].get(part.key)
    if operator is None:
        return Note()
    rate = feed.rate(lambda one: one["stats"]["operators"].get(part.key, {}).get("rows_out"))
    if part.kind == "results":
        per_second = [] if rate is None else [f"{_number(rate)} per second"]
        return Note((f"{operator['rows_out']:,} results", *per_second))
    share = f" · {_share(operator['rows_out'], operator['rows_in'])}" if operator["rows_in"] else ""
    return Note((*stored, *_held_back(stats["demand"], part.key)), _rows(rate, operator["rows_out"]) + share)


def _passing(feed: Feed, stats: Mapping[str, Any], part: Part) -> str:
    """The rows of a stream that go to the part above, and their share of the rows of the stream."""

    def counted(which: int, key: str) -> tuple[float | None, int | None]:
        """The rate and the count of the operator before (0) or behind (1) the filters of the stream."""
        name = part.passing[which] if part.passing else ""
        figure = lambda one: one["operators"].get(name, {}).get(key)
        return feed.rate(lambda document: figure(document["stats"])), figure(stats)

    (rate_in, count_in), (rate_out, count_out) = counted(0, "rows_in"), counted(1, "rows_out")
    if count_in is None or count_out is None:
        return _rows(feed.rate(lambda one: one["stats"]["rows_in"].get(part.key)), stats["rows_in"].get(part.key))
    # Of the rates of the last seconds, if they are known: a query that was added late got only a part of all rows.
    if rate_in and rate_out is not None:
        share = f" · {_share(rate_out, rate_in)}"
    else:
        share = f" · {_share(count_out, count_in)}" if count_in else ""
    return _rows(rate_out, count_out) + share


def _held_back(demand: Mapping[str, Any], key: str) -> list[str]:
    """The rows that just-in-time joins hold back before and behind a node, on all shards."""
    names = (key, f"{key} admission")
    is_one_shard = any(name in demand for name in names)
    shards = [demand] if is_one_shard else [one for one in demand.values() if isinstance(one, Mapping)]
    edges = [one[name] for one in shards for name in names if name in one]
    if not edges:
        return []
    listening = sum(edge["state"] == "listening" for edge in edges)
    where = "" if listening == len(edges) else f" at {listening} of {len(edges)} places"
    state = f"demand: listens{where}" if listening else "demand: makes everything"
    avoided = sum(edge["partials_avoided"]["estimate"] for edge in edges)
    held = sum(edge["suspensions"] - edge["resumptions"] for edge in edges)
    return [state, *([f"held back {max(held, 0):,}, about {avoided:,} not made"] if avoided or held > 0 else [])]


def _punctuated(stats: Mapping[str, Any], stream: str) -> list[str]:
    """The number of punctuations of a stream, and of its rows that broke one."""
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
    """Rows out per row in: a percentage, or a factor.

    >>> _share(1, 8), _share(30, 10)
    ('12.5 %', '× 3')
    """
    ratio = out / came
    return f"{100 * ratio:.3g} %" if ratio <= 1 else f"× {ratio:.3g}"
