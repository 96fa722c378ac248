"""`eddyline request --job DIR "dst, bytes FROM traffic WHERE …"`: query a template of a running job.

Answer   DIR is the checkpoint folder of the job. This process checks the request and writes a control record; the job
         writes the answer as a file. The job answers all requests of `--file` between the same two epochs.
State    None.
Limits   If no process runs the job, the command ends with an error. A request for a later instant waits until the
         streams have passed it, or for the seconds of `--timeout`.
"""

from __future__ import annotations

import argparse
import sys

import pyarrow as pa
import pyarrow.csv

from eddyline.cli.jobs import read_job
from eddyline.errors import UserError
from eddyline.language import Job
from eddyline.language.requests.request_texts import bind_request_texts, parse_requests
from eddyline.language.requests.templates import bind_request
from eddyline.runtime.control.control import ControlFolder, planned_job
from eddyline.runtime.control.request_answers import request_answers

#: Rows of an answer that are shown as a table.
_SHOWN = 1_000


def run(args: argparse.Namespace) -> int:
    if args.timeout is not None and not args.timeout >= 0:
        raise UserError(f"--timeout cannot be {args.timeout}", hint="seconds, 0 or more")
    folder = ControlFolder(args.job)
    texts = _texts(args, planned_job(folder))
    for number, table in enumerate(request_answers(folder, texts, args.as_of, args.timeout)):
        _print(table, texts[number], args.format, first=number == 0)
    return 0


def _texts(args: argparse.Namespace, job: Job) -> list[str]:
    """The texts of the requests, checked against the templates of the job."""
    given = ([args.text] if args.text is not None else []) + ([read_job(args.file)] if args.file is not None else [])
    if not given:
        raise UserError("there is no request", hint='eddyline request --job DIR "column, … FROM template", or --file F')
    requests = [request for text in given for request in parse_requests(text)]
    for request in requests:
        # Bound one by one first: an error then has its place in the text of the user.
        bind_request(request, job.catalog)
    texts = [request.text for request in requests]
    bind_request_texts(texts, args.as_of, job.catalog)
    return texts


def _print(table: pa.Table, text: str, form: str, first: bool) -> None:
    if form == "table":
        from rich.console import Console

        from eddyline.connectors.results.sinks import as_rich

        # Outside a terminal a table is as wide as its contents.
        console = Console() if sys.stdout.isatty() else Console(width=200)
        console.print(as_rich(table, " ".join(text.split()), _SHOWN))
        return
    sys.stdout.flush()
    out = sys.stdout.buffer
    if form == "csv":
        if not first:
            out.write(b"\n")
        pyarrow.csv.write_csv(table, out)
    else:
        from eddyline.connectors.formats.encoders import json_lines

        for batch in table.to_batches():
            out.write(json_lines(batch))
    out.flush()
