"""`eddyline query add | drop | set | list --job DIR`: the queries of a running job, without a restart.

Answer   DIR is the checkpoint folder of the job. This process checks the change and writes a control record. The job
         carries the record out between two epochs, or at its next start.
State    None.
Limits   `list` shows what the job wrote last, as a table or as JSON: a change that the job has not carried out yet is
         `pending` or `stopping`.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from eddyline.cli.jobs import read_job
from eddyline.errors import UserError
from eddyline.runtime.control.control import ControlFolder, planned_job
from eddyline.runtime.control.sending import add_queries, drop_queries, set_triggers


def run_add(args: argparse.Namespace) -> int:
    folder = ControlFolder(args.job)
    sent = add_queries(folder, planned_job(folder), read_job(args.file))
    for warning in sent.warnings:
        print(f"warning: {warning}")
    print(f"added {', '.join([*sent.change.names, *(derived.name for derived in sent.change.promised)])}")
    return 0


def run_drop(args: argparse.Namespace) -> int:
    folder = ControlFolder(args.job)
    sent = drop_queries(folder, planned_job(folder), args.names)
    print(f"dropped {', '.join(sent.change.names)}")
    return 0


def run_set(args: argparse.Namespace) -> int:
    folder = ControlFolder(args.job)
    given = {}
    for part in args.settings:
        name, equals, value = part.partition("=")
        if not equals:
            raise UserError(f"{part} is no setting", hint="name=value, such as purge=100")
        given[name.strip()] = value.strip()
    change = set_triggers(folder, planned_job(folder), args.name, given).change
    assert change.triggers is not None
    query, settings = change.triggers
    print(f"set {', '.join(f'{name} = {value}' for name, value in settings.items())} of {query}")
    return 0


def run_list(args: argparse.Namespace) -> int:
    folder = ControlFolder(args.job)
    folder.catalog()
    lines = listed(folder)
    if args.json:
        for line in lines:
            print(json.dumps(line))
    else:
        _show(lines)
    return 0


def _show(lines: list[dict[str, Any]]) -> None:
    """The queries as a table; a start that is not known yet is empty for a query that has not begun."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from eddyline.cli.progress import instant_text

    table = Table()
    for name in ("query", "state", "start", "stop"):
        table.add_column(name, no_wrap=name != "query", overflow="fold")
    for line in lines:
        # A query without a start reads its streams from their first row on.
        first = "" if line["state"] == "pending" else "first row"
        start = first if line["start"] is None else instant_text(line["start"])
        table.add_row(
            Text(line["query"]), line["state"], start, "" if line["stop"] is None else instant_text(line["stop"])
        )
    Console().print(table if lines else "the job has no query")


def listed(folder: ControlFolder) -> list[dict[str, object]]:
    """The queries as the job wrote them last, then those of records that the job has not carried out yet."""
    state = folder.state()
    lines: dict[str, dict[str, object]] = {line["query"]: line for line in state["queries"]}
    if folder.waiting(state["applied"]):
        job = planned_job(folder)
        planned = set(job.names)
        for name in sorted(planned):
            if name in job.catalog.queries and not job.catalog.queries.holds(name):
                continue
            if lines.get(name, {}).get("state") in (None, "dropped"):
                lines[name] = {"query": name, "state": "pending", "start": None, "stop": None}
        for name, line in lines.items():
            if name not in planned and line["state"] == "running":
                line["state"] = "stopping"
    return list(lines.values())


__all__ = ["listed", "run_add", "run_drop", "run_list", "run_set"]
