"""`eddyline run job.sql`: run a job file to its end, or until a signal stops it.

Answer   Prints the texts of EXPLAINs and the progress, writes results to `--out` and figures to `--stats`.
State    The checkpoint folder, if `--checkpoint` names one.
Limits   The first SIGINT or SIGTERM stops the job after the current epoch. A second one ends the process at once.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from eddyline.cli.jobs import read_job
from eddyline.cli.progress import ProgressDisplay
from eddyline.cli.running.dashboard import check_dashboard, serve_dashboard
from eddyline.cli.running.signals import Signals
from eddyline.errors import SettingProblem, UserError
from eddyline.kernels import compiling
from eddyline.session import Session
from eddyline.state.whole_file import SHARED, write_whole


def run(args: argparse.Namespace) -> int:
    text = read_job(args.job)
    check_dashboard(args)
    if args.final and not args.once:
        raise SettingProblem("--final stands without --once", hint="--once reads what is there, --final closes it")
    if args.final and args.engine == "spark":
        raise SettingProblem("--final is for --engine embedded", hint="a run on Spark leaves open what is open")
    compiling.announce(not args.quiet)
    if args.stats:
        _check_file(args.stats)
    with opened(args) as session:
        for explained in session.execute(text):
            print(explained)
        if not session.job.queries:
            raise UserError(f"{args.job} has no query", hint="CREATE QUERY name AS SELECT …")
        for warning in session.warnings:
            print(f"warning: {warning}", file=sys.stderr)
        serve_dashboard(session, args)
        stats = _run(session, args)
    if args.stats:
        write_whole(args.stats, json.dumps(stats, indent=1), mode=SHARED)
    return 0


def _check_file(path: str) -> None:
    """Refuse a file for figures that cannot be written, before the job runs."""
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path):
        raise UserError(f"--stats {path} is a folder", hint="--stats FILE names a file")
    if not os.path.isdir(folder):
        detail, hint = f"there is no folder {folder}", "make the folder first"
    elif not os.access(folder, os.W_OK):
        detail, hint = f"the folder {folder} is read-only", "choose another place"
    else:
        return
    raise UserError(f"--stats {path} cannot be written", detail=detail, hint=hint)


@contextmanager
def opened(args: argparse.Namespace) -> Iterator[Session]:
    """The session that the options ask for."""
    options: dict[str, Any] = {"out": args.out, "checkpoint": args.checkpoint, "overwrite": args.overwrite}
    options |= {"keep_results": False, "keep_memory": True}
    if args.engine == "embedded":
        yield Session(follow=not args.once, cores=args.cores, **options)
        return
    if args.cores is not None:
        raise SettingProblem("--cores is for --engine embedded", hint="--master local[N] says how many cores Spark has")
    # PySpark is imported only where the job runs on Spark.
    if find_spec("pyspark") is None:
        raise SettingProblem("Spark is not installed", hint="pip install 'eddyline[spark]', or --engine embedded")
    from eddyline.runtime.spark.job.session import close_session, open_session

    if not args.quiet:
        print(f"starting Spark ({args.master}) …", file=sys.stderr, flush=True)
    spark = open_session(args.master)
    ended_well = False
    try:
        yield Session(spark=spark, **options)
        ended_well = True
    finally:
        close_session(spark, ended_well)


def _run(session: Session, args: argparse.Namespace) -> dict[str, Any]:
    with Signals(session).obeyed(), ProgressDisplay(quiet=args.quiet) as progress:
        if not args.quiet:
            session.observe(progress.observe)
            if args.checkpoint is not None and session.is_one_process:
                # On shards figures begin anew with every run.
                progress.resumed(session.stats(), session.job.catalog.makers, args.checkpoint)
        session.run(once=args.once, final=args.final)
    stats = session.stats()
    progress.summary(stats, session.job.catalog.makers)
    for name in session.analyzed:
        print(session.analysis(name))
    return stats
