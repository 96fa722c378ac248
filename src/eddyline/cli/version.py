"""`eddyline version`, `eddyline --version`: print the version of the installed package."""

from __future__ import annotations

import argparse

import eddyline


def run(args: argparse.Namespace) -> int:
    print(f"eddyline {eddyline.__version__}")
    return 0
