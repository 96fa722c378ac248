"""`eddyline …`: one file per command.

Answer   Exit code 0 for done, 2 for the user's mistakes (with message, detail, hint), 1 for ours.
"""

from __future__ import annotations

import argparse
import importlib
import sys

from eddyline.errors import EddylineError

#: The modules of this folder that are commands, in the order of the help text.
COMMANDS = ("run", "shell", "query", "state", "explain", "check", "generate", "plan", "index", "calibrate", "demo", "version")


def parser(wanted: str | None = None) -> argparse.ArgumentParser:
    """The parser of one command, or of all of them. A command's module is loaded only where it is needed: some load the engine."""
    root = argparse.ArgumentParser(prog="eddyline", description="Continuous queries over streams, embedded or on Spark.")
    commands = root.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in COMMANDS if wanted not in COMMANDS else (wanted,):
        importlib.import_module(f"eddyline.cli.{name}").add_parser(commands)
    return root


def main(arguments: list[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    args = parser(given[0] if given else None).parse_args(given)
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
