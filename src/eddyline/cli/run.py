"""`eddyline run job.sql`: run a job file to its end, or until it is told to stop."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from types import FrameType
from typing import Any

from eddyline.cli.jobs import read_job
from eddyline.cli.progress import Progress
from eddyline.errors import UserError
from eddyline.session import Session


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser("run", help="run a job file")
    parser.add_argument("job", help="job file")
    parser.add_argument("--engine", choices=("embedded", "spark"), default="embedded", help="where it runs (default: embedded)")
    parser.add_argument("--master", default="local[*]", help="Spark master (default: local[*])")
    parser.add_argument("--once", action="store_true", help="read what is there now to its end, then close")
    parser.add_argument("--out", metavar="DIR", help="write results to DIR/<query>/*.parquet")
    parser.add_argument("--overwrite", action="store_true", help="empty a DIR that holds earlier results")
    parser.add_argument("--checkpoint", metavar="DIR", help="keep state in DIR and continue from it")
    parser.add_argument("--stats", metavar="FILE", help="write figures of the run as JSON")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    text = read_job(args.job)
    stats = _run_embedded(args, text) if args.engine == "embedded" else _run_spark(args, text)
    if args.stats:
        with open(args.stats, "w", encoding="utf-8") as file:
            json.dump(stats, file, indent=1)
    return 0


def _run_embedded(args: argparse.Namespace, text: str) -> dict[str, Any]:
    session = Session(out=args.out, checkpoint=args.checkpoint, overwrite=args.overwrite, follow=not args.once, keep_results=False)
    for explained in session.execute(text):
        print(explained)
    if not session.job.queries:
        raise UserError(f"{args.job} has no query", hint="CREATE QUERY name AS SELECT …")
    for warning in session.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    driver = session.driver

    def stop(number: int, frame: FrameType | None) -> None:
        driver.stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    with Progress(quiet=args.quiet) as progress:
        session.observe(progress.observe)
        session.run(once=args.once)
    stats = session.stats()
    progress.summary(stats)
    for name in session.analyzed:
        print(session.analysis(name))
    return stats


def _run_spark(args: argparse.Namespace, text: str) -> dict[str, Any]:
    from eddyline.runtime.spark.job import run_job

    return run_job(
        text, master=args.master, once=args.once, checkpoint=args.checkpoint, out=args.out, overwrite=args.overwrite, quiet=args.quiet
    )
