"""The decisions of a job as a list of events: the differences between two reports.

Answer   `decisions(before, now)` compares two report documents, also across a restart, and gives one event for each

             start                of the job
             added, dropped       query
             migration, kept      plan that was replaced, or kept though another one was found
             demand               edge that began or stopped to listen
             index                template with a new index
             refused              control record

State    None.
Limits   Reports list migrations and refusals. Of everything else a change that was undone before the next report gives no
         event. Of many queries that come or go between two reports the first ones are named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

#: So many queries that come or go between two reports have an event each; all others together have one.
_NAMED = 20

Event = dict[str, Any]


def decisions(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> list[Event]:
    """Events in no particular order; each has a `kind` and a `text`."""
    found: list[Event] = []
    earlier: Mapping[str, Any] = before or {"stats": {}, "control": {}}
    if before is None or before.get("started") != now["started"]:
        again = "" if before is None else " again, from its checkpoint" if now["stats"].get("epochs") else " again"
        found.append({"kind": "start", "text": f"the job started{again} ({now['engine']})"})
    old, new = earlier["stats"], now["stats"]
    found += _queries(set(earlier.get("names", ())), set(now["names"]), before is None)
    found += _moves(old.get("migrations", ()), new["migrations"])
    found += _passed_over(earlier.get("refused_plans", ()), now["refused_plans"])
    found += _edges(old.get("demand", {}), new["demand"], now["units"])
    found += _indexes(old, new)
    for number, reason in now["control"].get("refused", {}).items():
        if number not in earlier.get("control", {}).get("refused", {}):
            found.append({"kind": "refused", "text": f"control record {number} was refused", "reason": reason})
    return found


def _queries(before: set[str], now: set[str], is_first: bool) -> Iterable[Event]:
    changes = (("added", "was added", sorted(now - before)), ("dropped", "has gone", sorted(before - now)))
    for kind, change, names in changes:
        if is_first and kind == "added":
            # The first report has the queries of the job file: no decision added them.
            continue
        for name in names[:_NAMED]:
            yield {"kind": kind, "query": name, "text": f"query {name} {change}"}
        if len(names) > _NAMED:
            yield {"kind": kind, "text": f"{len(names) - _NAMED} more queries: {change}"}


def _moves(before: Iterable[Mapping[str, Any]], now: Iterable[Mapping[str, Any]]) -> Iterable[Event]:
    known = {_name_of(move) for move in before}
    for move in now:
        if _name_of(move) not in known:
            gain = 1.0 - move["cpu_after"] / move["cpu_before"] if move["cpu_before"] else 0.0
            yield {
                "kind": "migration", "queries": list(move["queries"])[:_NAMED], "text": f"{move['from']} became {move['to']}",
                "before": move["from"], "after": move["to"], "cpu_before": move["cpu_before"], "cpu_after": move["cpu_after"],
                "gain": gain, "reason": move["reason"], "seconds": move["seconds"], "rows": move["rows_rebuilt"],
            }  # fmt: skip


def _name_of(move: Mapping[str, Any]) -> tuple[object, ...]:
    return move["epoch"], move["from"], move["to"], tuple(move["queries"])


def _passed_over(before: Iterable[Mapping[str, Any]], now: Iterable[Mapping[str, Any]]) -> Iterable[Event]:
    known = {(one["epoch"], one["tree"], tuple(one["queries"])) for one in before}
    for one in now:
        if (one["epoch"], one["tree"], tuple(one["queries"])) not in known:
            text, queries = f"the plan stays; {one['tree']} was not taken", list(one["queries"])[:_NAMED]
            yield {"kind": "kept", "queries": queries, "text": text, "reason": one["reason"]}


def _all_edges(demand: Mapping[str, Any], place: str = "") -> Iterable[tuple[str, str, Mapping[str, Any]]]:
    """Each edge: its name, the join above it, its figures; on Spark those of every shard."""
    for name, edge in demand.items():
        if "state" in edge:
            yield f"{name}{place}", f"{edge['node']}{place}", edge
        else:
            yield from _all_edges(edge, f" on shard {name}")


def _edges(before: Mapping[str, Any], now: Mapping[str, Any], units: Mapping[str, str]) -> Iterable[Event]:
    earlier = {name for name, _, edge in _all_edges(before) if edge["state"] == "listening"}
    for name, node, edge in _all_edges(now):
        is_on = edge["state"] == "listening"
        if (name in earlier) != is_on:
            text = "listens: what is not demanded is held back" if is_on else "stops to listen: everything is made"
            queries = [query for query, mine in units.items() if mine == edge["unit"]][:_NAMED]
            yield {"kind": "demand", "edge": name, "queries": queries, "text": f"the join {node} {text}"}


def _indexes(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterable[Event]:
    known = before.get("templates", {})
    for name, figures in now.get("templates", {}).items():
        index = figures.get("index") if isinstance(figures, Mapping) else None
        was = known.get(name, {}).get("index") if isinstance(known.get(name), Mapping) else None
        if index is not None and was is not None and index != was:
            text = f"template {name} has another index"
            yield {"kind": "index", "query": name, "text": text, "before": str(was), "after": str(index)}
