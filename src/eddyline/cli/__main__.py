"""`eddyline …`: one file per command.

Answer   Exit code 0: the command is done. Exit code 2: a mistake of the user, printed with message, detail and hint. Exit
         code 1: an error of this program. If SIGINT or SIGTERM ends a command, a second call does the rest; `run` ends
         after the current epoch, or gives it up.
State    None.
Limits   Until a command sets its own handlers, signals end the process at once and print nothing, also while modules are
         loaded. A SIGINT in the first 20 ms, while Python itself starts, prints Python's traceback.
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

#: The module of each command, in the order of the help text. The last part of its path is the name of the command, and
#: of the function in the `options.py` of its folder that adds its options.
COMMANDS = (
    "run",
    "shell",
    "running.query",
    "running.request",
    "running.state",
    "running.dashboard",
    "running.top",
    "plans.explain",
    "plans.check",
    "plans.constraints",
    "generate",
    "plans.plan",
    "lab.lab",
    "demo",
    "warm",
    "version",
)
#: Tools of `lab` that can be called without `lab`, too: their old names.
OLD_NAMES = ("lab.index", "lab.calibrate")


def parser(wanted: str | None = None) -> argparse.ArgumentParser:
    """The parser of one command, or of all of them if `wanted` is no command. No command is loaded: some load the
    engine."""
    import argparse
    import importlib

    root = argparse.ArgumentParser(
        prog="eddyline", description="Continuous queries over streams, embedded or on Spark."
    )
    root.add_argument("--version", action="store_true", help="print the version")
    commands = root.add_subparsers(dest="command", metavar="COMMAND", required=True)
    chosen = [module for module in COMMANDS + OLD_NAMES if module.rpartition(".")[2] == wanted]
    for module in chosen or COMMANDS:
        folder, _, name = f"eddyline.cli.{module}".rpartition(".")
        getattr(importlib.import_module(f"{folder}.options"), name)(commands)
    return root


def main(arguments: list[str] | None = None) -> int:
    if arguments is None:
        # This is the whole process, not a call from a program. Python's own handler would raise KeyboardInterrupt in the
        # middle of an import.
        if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
            _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
        arguments = sys.argv[1:]
    from eddyline.errors import EddylineError, unwritable

    if arguments[:1] == ["--version"]:
        arguments = ["version"]
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
