"""`eddyline lab TOOL …`: tools for research, below one name.

Answer   `lab index` shares out the address bits of an index, `lab calibrate` measures the cost model on this machine.
State    None.
Limits   The tools keep their old names (`eddyline index`, `eddyline calibrate`) beside the new ones.
"""

from __future__ import annotations

import argparse


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    # Here, so that other commands do not load the search for indexes.
    from eddyline.cli.lab import calibrate, index

    parser = commands.add_parser("lab", help="tools for research: index, calibrate", description="Tools for research.")
    tools = parser.add_subparsers(dest="tool", metavar="TOOL", required=True)
    for tool in (index, calibrate):
        tool.add_parser(tools)
