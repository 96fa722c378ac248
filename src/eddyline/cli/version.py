"""`eddyline version`: print the version of the installed package."""

from __future__ import annotations

import argparse
from importlib.metadata import version


def add_parser(commands: argparse._SubParsersAction) -> None:
    commands.add_parser("version", help="print the version").set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    print(f"eddyline {version('eddyline')}")
    return 0
