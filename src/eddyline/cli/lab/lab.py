"""`eddyline lab TOOL …`: tools for research, below one name.

Answer   `lab index` finds how many address bits each attribute of an index gets. `lab calibrate` measures the costs of
         operations on this machine.
State    None.
Limits   The tools keep their old names (`eddyline index`, `eddyline calibrate`) beside the new ones.
"""

from __future__ import annotations

import argparse


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    # Imported here: these modules load the search for indexes, which no other command needs.
    from eddyline.cli.lab import calibrate, index

    parser = commands.add_parser("lab", help="tools for research: index, calibrate", description="Tools for research.")
    tools = parser.add_subparsers(dest="tool", metavar="TOOL", required=True)
    for tool in (index, calibrate):
        tool.add_parser(tools)
