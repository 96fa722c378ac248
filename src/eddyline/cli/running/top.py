"""`eddyline top --job DIR`: the overview and the queries of a job on a terminal, live.

Answer   DIR is the checkpoint folder of the job. On a terminal the screen is drawn anew every second until q or Ctrl-C
         ends the command; elsewhere, and with `--once`, it is printed once.
State    None: each screen shows the newest report of the job.
Limits   As many queries as fit on the screen, four streams.
"""

from __future__ import annotations

import argparse
import contextlib
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from eddyline.cli.interactive.keys import is_ended, single_keys
from eddyline.cli.progress import instant_text
from eddyline.dashboard.feed import Feed
from eddyline.dashboard.views import overview, queries
from eddyline.runtime.control.control import ControlFolder

#: Seconds between two screens.
_SECONDS = 1.0
#: Lines of the overview, and queries of a screen without a known height.
_OVERVIEW, _QUERIES = 14, 40


def run(args: argparse.Namespace) -> int:
    ControlFolder(args.job).catalog()
    feed, console = Feed(args.job), Console()
    feed.refresh()
    if args.once or not console.is_terminal:
        console.print(picture(feed, args.sort, _QUERIES))
        return 0
    with (
        contextlib.suppress(KeyboardInterrupt),
        single_keys() as keyboard,
        Live(console=console, screen=True, auto_refresh=False) as live,
    ):
        ended = False
        while not ended:
            feed.refresh()
            live.update(picture(feed, args.sort, max(3, console.height - _OVERVIEW)), refresh=True)
            ended = is_ended(keyboard, _SECONDS)
    return 0


def picture(feed: Feed, sort: str, most: int) -> Group:
    seen = overview(feed)
    if not seen["sequence"]:
        return Group(Text("the job has written no report yet"))
    # The last report of a job that was killed has the state "running".
    killed = seen["state_of_job"] == "running" and not seen["running"]
    state, written = "not running" if killed else seen["state_of_job"], instant_text(int(seen["written"] * 1e6))
    head = Text(f"{seen['engine']} job, {state}, {seen['queries']:,} queries, report of {written}", "bold")
    parts: list[Any] = [head, _figures(feed, seen), _streams(feed, seen), _queries(feed, sort, most)]
    return Group(*parts, *([Text(str(seen["error"]), "red")] if seen["error"] else []))


def _figures(feed: Feed, seen: dict[str, Any]) -> Table:
    rate = feed.rate(lambda one: sum(one["stats"]["rows_in"].values()))
    made = feed.rate(lambda one: sum(one["stats"]["results"].values()))
    figures = {
        "rows": f"{sum(seen['rows_in'].values()):,}",
        "rows/s": _number(rate),
        "results": f"{seen['results']:,}",
        "results/s": _number(made),
        "frontier": instant_text(seen["frontier"]),
        "stored rows": f"{seen['state']['rows']:,}",
        "state MB": f"{seen['state']['bytes'] / 1e6:,.1f}",
        "memory MB": f"{seen['memory_bytes'] / 1e6:,.0f}",
        "epochs": f"{seen['epochs']:,}",
        "median ms": f"{seen['epoch_times']['median'] * 1e3:,.1f}",
    }
    table = Table(*figures)
    table.add_row(*figures.values())
    return table


def _streams(feed: Feed, seen: dict[str, Any]) -> Table:
    table = Table("stream", "rows", "rows/s", "newest", "late", "bad", "")
    for name, rows in list(seen["rows_in"].items())[:4]:
        rate = feed.rate(lambda one, name=name: one["stats"]["rows_in"].get(name))  # type: ignore[misc]
        holds = "holds the frontier back" if seen["held_by"] == name else ""
        newest = instant_text(seen["streams"][name]["newest"])
        table.add_row(
            Text(name), f"{rows:,}", _number(rate), newest, f"{seen['late'][name]:,}", f"{seen['bad'][name]:,}", holds
        )
    return table


def _queries(feed: Feed, sort: str, most: int) -> Table:
    found = queries(feed)
    table = Table("query", "results", "results/s", "mean ms", "p95 ms", "share", "state")
    by = {"name": lambda n: found["names"][n]}.get(sort, lambda n: -(found[sort][n] or 0))
    for n in sorted(range(len(found["names"])), key=by)[:most]:
        times = [_number(None if found[key][n] is None else found[key][n] * 1e3) for key in ("mean", "p95")]
        share = "" if found["share"][n] is None else f"{100 * found['share'][n]:.1f} %"
        figures = (f"{found['results'][n]:,}", _number(found["rate"][n]), *times, share)
        table.add_row(Text(found["names"][n]), *figures, found["state"][n])
    return table


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:,.2f}"
