"""Commands that are loaded when they run.

Answer   `when_run` gives the function of a command, which imports the command's module when it is called. The options of
         commands stand in the `options.py` of their folder, so that help loads no engine.
State    None.
Limits   A module that cannot be imported is found only when its command runs.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import import_module


def when_run(module: str, function: str = "run") -> Callable[[argparse.Namespace], int]:
    """What carries out a command: the function of a module below `eddyline.cli`."""

    def run(args: argparse.Namespace) -> int:
        return int(getattr(import_module(f"eddyline.cli.{module}"), function)(args))

    return run
