"""`eddyline query add | drop | set | list --job DIR`: the queries of a running job, without a restart.

Answer   DIR is the checkpoint folder of the job. This process checks the change and writes a control record. The job
         carries the record out between two epochs, or at its next start.
State    None.
Limits   `list` shows what the job wrote last: a change that the job has not carried out yet is `pending` or `stopping`.
"""

from __future__ import annotations

import argparse
import json

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
    for line in listed(folder):
        print(json.dumps(line))
    return 0


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
