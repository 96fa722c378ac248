"""Commands that are loaded when they run.

Answer   `command` adds a command, and gives the function that adds an option to it. `when_run` gives the function of a
         command, which imports the command's module when it is called. The options of commands stand in the
         `options.py` of their folder, so that help loads no engine.
State    None.
Limits   A module that cannot be imported is found only when its command runs.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import import_module

#: Takes what `ArgumentParser.add_argument` takes.
AddOption = Callable[..., argparse.Action]


def command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    module: str,
    text: str,
    description: str | None = None,
) -> AddOption:
    """Add the command that a module of its name carries out."""
    parser = commands.add_parser(module.rpartition(".")[2], help=text, description=description)
    parser.set_defaults(run=when_run(module))
    return parser.add_argument


def when_run(module: str, function: str = "run") -> Callable[[argparse.Namespace], int]:
    """What carries out a command: the function of a module below `eddyline.cli`."""

    def run(args: argparse.Namespace) -> int:
        return int(getattr(import_module(f"eddyline.cli.{module}"), function)(args))

    return run
