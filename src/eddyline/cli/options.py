"""Options of the commands that have no folder of their own.

Answer   Each function adds the parser of the command of its name to `commands`. A command is loaded when it runs.
State    None.
Limits   Nothing of the engine is imported here: help shows these options without it.
"""

from __future__ import annotations

import argparse

from eddyline.cli.generate_options import KINDS, RATES
from eddyline.cli.loading import command, when_run
from eddyline.cli.running.options import add_dashboard_options


def run(commands: argparse._SubParsersAction) -> None:
    add = command(commands, "run", "run a job file")
    add("job", help="job file")
    add("--engine", choices=("embedded", "spark"), default="embedded", help="where it runs (default: embedded)")
    add("--cores", metavar="N", help="processes of this machine that share the work; auto: one per core (default: 1)")
    add("--master", default="local[*]", help="Spark master (default: local[*])")
    add("--once", action="store_true", help="read what is there now to its end, then close")
    final = "with --once: close what is open; nothing comes after that (default: where there is no --checkpoint)"
    add("--final", action=argparse.BooleanOptionalAction, default=None, help=final)
    add("--out", metavar="DIR", help="write results to DIR/<query>/*.parquet")
    add("--overwrite", action="store_true", help="empty a DIR that holds earlier results")
    add("--checkpoint", metavar="DIR", help="keep state in DIR and continue from it")
    add("--stats", metavar="FILE", help="write figures of the run as JSON")
    add_dashboard_options(
        add, "--dashboard", "serve a page about the job at http://HOST:PORT (default host: 127.0.0.1)"
    )
    add("--quiet", action="store_true", help="no progress")


def shell(commands: argparse._SubParsersAction) -> None:
    add = command(
        commands,
        "shell",
        "try queries on files interactively",
        description="`eddyline shell [FILE …]`: try queries on files.",
    )
    add("files", nargs="*", metavar="FILE", help="job files (.sql) to carry out, data files or folders to open")


def generate(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "generate",
        help="write synthetic streams",
        description="`eddyline generate auction|sensors|clique|orders|nexmark`: synthetic streams as parquet files.",
    )
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)
    for kind, (text, options) in KINDS.items():
        with_defaults = argparse.ArgumentDefaultsHelpFormatter
        one = kinds.add_parser(kind, help=text, description=text, formatter_class=with_defaults)
        rate, seconds = RATES.get(kind, (100.0, 600.0))
        one.add_argument("--out", required=True, metavar="DIR", help="folder for the files", default=argparse.SUPPRESS)
        one.add_argument("--rate", type=float, default=rate, help="rows per second of event time, per stream")
        one.add_argument("--seconds", type=float, default=seconds, help="length in event time")
        one.add_argument("--seed", type=int, default=0, help="the same seed gives the same rows")
        one.add_argument("--skew", type=float, default=0.0, help="Zipf exponent of keys; 0: uniform")
        one.add_argument(
            "--disorder", type=float, default=0.0, help="rows arrive up to this many seconds behind the newest"
        )
        one.add_argument("--late", type=float, default=0.0, help="share of rows that arrive later than that")
        one.add_argument("--burst", type=float, help="Pareto shape of the gaps between rows, above 1; none: even gaps")
        one.add_argument("--files", type=int, default=1, help="files per stream")
        for name, (default, explained) in options.items():
            one.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default, help=explained)
        one.set_defaults(run=when_run("generate"))


def demo(commands: argparse._SubParsersAction) -> None:
    add = command(commands, "demo", "generate auction streams and run several queries over them")
    add("--dir", default="demo", help="where data and results go (default: demo)")
    add("--seconds", type=float, default=300.0, help="seconds of event time (default: 300)")
    add("--rate", type=float, default=1_000.0, help="bids per second (default: 1000)")
    add("--engine", choices=("embedded", "spark"), default="spark", help="where it runs (default: spark)")


def warm(commands: argparse._SubParsersAction) -> None:
    commands.add_parser("warm", help="compile the kernels of common queries now").set_defaults(run=when_run("warm"))


def version(commands: argparse._SubParsersAction) -> None:
    commands.add_parser("version", help="print the version").set_defaults(run=when_run("version"))
