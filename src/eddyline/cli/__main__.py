"""`eddyline …`: one file per command.

Answer   Exit code 0 for done, 2 for the user's mistakes (with message, detail, hint), 1 for ours.
"""

from __future__ import annotations

import argparse
import sys

from eddyline.cli import calibrate, check, demo, explain, generate, plan, query, run, shell, state, version
from eddyline.errors import EddylineError

COMMANDS = (run, shell, query, state, explain, check, generate, plan, calibrate, demo, version)


def parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(prog="eddyline", description="Continuous queries over streams, embedded or on Spark.")
    commands = root.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add_parser(commands)
    return root


def main(arguments: list[str] | None = None) -> int:
    args = parser().parse_args(arguments)
    try:
        return int(args.run(args))
    except EddylineError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return problem.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 0


if __name__ == "__main__":
    sys.exit(main())
