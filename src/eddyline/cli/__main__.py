"""`eddyline …`: one file per command.

Answer   Exit code 0 for done, 2 for the user's mistakes (with message, detail, hint), 1 for ours. A command that SIGINT
         or SIGTERM ends has done nothing by halves that a second call would not do again; `run` ends after the epoch at
         hand, or gives it up.
Limits   Until a command takes signals over, they end the process at once and without a word, also while modules are
         loaded. Python's own start, some 20 ms, is not ours: a SIGINT in it ends the process with Python's traceback.
"""

from __future__ import annotations

# Nothing else is loaded before signals are set up: loading takes up to a second. `signal` and `typing` take 9 ms of it
# with what they load.
import _signal  # type: ignore[import-not-found]
import sys

#: Type checkers take a variable of this name for true.
TYPE_CHECKING = False

if TYPE_CHECKING:
    import argparse

#: The commands, each a module of its own, in the order of the help text.
COMMANDS = (
    "run",
    "shell",
    "query",
    "request",
    "state",
    "dashboard",
    "top",
    "explain",
    "check",
    "constraints",
    "generate",
    "plan",
    "lab",
    "demo",
    "version",
)

#: The modules of commands that are in a room of this folder.
ROOMS = {
    **{name: f"running.{name}" for name in ("query", "request", "state", "dashboard", "top")},
    **{name: f"plans.{name}" for name in ("explain", "check", "constraints", "plan")},
    **{name: f"lab.{name}" for name in ("lab", "index", "calibrate")},
}

#: Commands that stand below `lab` and are called by their old names too.
OLD_NAMES = ("index", "calibrate")


def parser(wanted: str | None = None) -> argparse.ArgumentParser:
    """The parser of one command, or of all of them. A command's module is loaded only where it is needed: some load the
    engine."""
    import argparse
    import importlib

    root = argparse.ArgumentParser(
        prog="eddyline", description="Continuous queries over streams, embedded or on Spark."
    )
    commands = root.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in (wanted,) if wanted in COMMANDS + OLD_NAMES else COMMANDS:
        importlib.import_module(f"eddyline.cli.{ROOMS.get(name, name)}").add_parser(commands)
    return root


def main(arguments: list[str] | None = None) -> int:
    if arguments is None:
        # The process is this command's own. Python would raise KeyboardInterrupt in the middle of an import.
        if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
            _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
        arguments = sys.argv[1:]
    from eddyline.errors import EddylineError, unwritable

    args = parser(arguments[0] if arguments else None).parse_args(arguments)
    try:
        return int(args.run(args))
    except EddylineError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return problem.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 0
    except OSError as problem:
        print(f"error: {unwritable(problem)}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
