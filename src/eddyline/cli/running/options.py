"""Options of the commands about a running job.

Answer   Each function adds the parser of the command of its name to `commands`. A command is loaded when it runs.
State    None.
Limits   Nothing of the engine is imported here: help shows these options without it.
"""

from __future__ import annotations

import argparse

from eddyline.cli.loading import AddOption, command, when_run


def query(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser("query", help="add, drop and list the queries of a running job")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    text = (
        "add the queries of a file (CREATE QUERY, CREATE STREAM … AS, CREATE SINK … FOR them, CREATE PUNCTUATION, SET)"
    )
    add = actions.add_parser("add", help=text)
    add.add_argument("file", help="file with the statements")
    add.set_defaults(run=when_run("running.query", "run_add"))
    drop = actions.add_parser("drop", help="drop queries and derived streams; results up to now are still delivered")
    drop.add_argument("names", nargs="+", metavar="NAME", help="names of queries and derived streams")
    drop.set_defaults(run=when_run("running.query", "run_drop"))
    text = "change when a query forgets rows and announces values: purge=100, propagate='10 seconds'"
    change = actions.add_parser("set", help=text)
    change.add_argument("name", metavar="NAME", help="name of a query")
    change.add_argument("settings", nargs="+", metavar="SETTING=VALUE", help="purge or propagate")
    change.set_defaults(run=when_run("running.query", "run_set"))
    show = actions.add_parser("list", help="show the queries: state, start, stop; times in UTC")
    text = "one JSON object per line: query, state, start, stop; times in microseconds since 1970"
    show.add_argument("--json", action="store_true", help=text)
    show.set_defaults(run=when_run("running.query", "run_list"))
    for action in (add, drop, change, show):
        action.add_argument("--job", required=True, metavar="DIR", help="the job's checkpoint folder")


def request(commands: argparse._SubParsersAction) -> None:
    add = command(commands, "running.request", "query a template of a running job")
    add("text", nargs="?", metavar="REQUEST", help="for example: dst, bytes FROM traffic WHERE src = '10.0.0.1'")
    add("--job", required=True, metavar="DIR", help="the job's checkpoint folder")
    add("--file", metavar="F", help="a file with requests, each ended by ;")
    add("--as-of", metavar="T", help="the instant, for requests without AS OF")
    add("--timeout", type=float, metavar="S", help="seconds to wait for the answer (default: as long as the job runs)")
    add("--format", choices=("table", "csv", "jsonl"), default="table", help="how answers are printed (default: table)")


def state(commands: argparse._SubParsersAction) -> None:
    add = command(commands, "running.state", "show what a checkpoint holds")
    add("--checkpoint", required=True, metavar="DIR", help="the checkpoint folder of a job, running or not")
    add("--json", action="store_true", help="one JSON object; times in microseconds since 1970")


def dashboard(commands: argparse._SubParsersAction) -> None:
    add = command(commands, "running.dashboard", "serve a page about a job, beside it or after it has ended")
    add("--job", required=True, metavar="DIR", help="the job's checkpoint folder")
    add_dashboard_options(add, "--port", "where the page is served (default: a free port of 127.0.0.1)")


def add_dashboard_options(add: AddOption, name: str, text: str) -> None:
    """The options of every command that serves a page."""
    add(name, metavar="[HOST:]PORT", help=text)
    add(
        "--dashboard-token-file",
        metavar="FILE",
        help="take the token from FILE; needed for a HOST that others can reach",
    )
    add(
        "--dashboard-readonly",
        action="store_true",
        help="pages only read: they add and drop no query and send no request",
    )


def top(commands: argparse._SubParsersAction) -> None:
    add = command(commands, "running.top", "show a job on the terminal, live")
    add("--job", required=True, metavar="DIR", help="the job's checkpoint folder")
    add(
        "--sort",
        choices=("rate", "results", "share", "name"),
        default="rate",
        help="order of the queries (default: rate)",
    )
    add("--once", action="store_true", help="print it once")
