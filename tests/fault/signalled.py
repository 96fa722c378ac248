"""Jobs that get a signal in a given function: `python -m tests.fault.signalled`.

Answer   `Struck` starts a process that loads the engine and runs a job once. `run` has it fork a child that runs the
         command line; when its main thread first calls a function of eddyline, the child sends itself a signal. It
         returns the exit code and what standard error has.
         `functions` are those that the main thread calls in a run. With a function, a signal and a command line as its
         arguments the program runs that command in its own process, and is struck where any of its threads first calls
         the function.
Limits   A child begins with loaded modules, and ends as any process does: its threads are waited for.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import eddyline

ROOT = Path(__file__).parents[2]


class Struck:
    def __init__(self, warm_up: Path) -> None:
        environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fault.signalled"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environment,
        )
        code, said = self._ask(
            {"folder": str(warm_up), "arguments": ["run", "job.sql", "--once", "--quiet"], "here": True}
        )
        assert code == 0, said

    def run(self, folder: Path, *arguments: str, at: str, number: int, seconds: float) -> tuple[int | None, str]:
        """None: the process has not ended `seconds` after it began; its stacks are in what is said."""
        return self._ask(
            {"folder": str(folder), "arguments": arguments, "at": at, "number": number, "seconds": seconds}
        )

    def functions(self, folder: Path, *arguments: str) -> list[str]:
        """What the main thread of a run to its end calls, in the order of first calls."""
        code, said = self._ask({"folder": str(folder), "arguments": arguments, "at": "", "number": 0, "seconds": 600})
        assert code == 0, said
        return [line.removeprefix("called ") for line in said.splitlines() if line.startswith("called ")]

    def _ask(self, request: dict[str, Any]) -> tuple[Any, str]:
        assert self._process.stdin is not None and self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        answer = json.loads(self._process.stdout.readline())
        return answer["code"], answer["said"]

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def _profiled(at: str, number: int) -> Callable[[FrameType, str, Any], None]:
    """From here on the main thread tells its calls, or is struck at one of them. Returned is what watches a thread."""
    seen: set[str] = set()
    package = f"{Path(eddyline.__file__).parent}{os.sep}"

    def called(frame: FrameType, event: str, _: Any) -> None:
        # All files of a checkout called src/eddyline are below a folder of that name, those of its environment too.
        if event == "call" and frame.f_code.co_filename.startswith(package):
            name = f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_qualname}"
            if name not in seen:
                seen.add(name)
                if not at:
                    os.write(2, f"called {name}\n".encode())
                elif name == at:
                    sys.setprofile(None)
                    os.write(2, b"struck\n")
                    os.kill(os.getpid(), number)

    sys.setprofile(called)
    return called


def serve() -> None:
    from eddyline.cli.__main__ import main
    from eddyline.connectors.files import ahead
    from eddyline.connectors.results.output import shared_writer

    for line in sys.stdin:
        request = json.loads(line)
        if request.get("here"):
            os.chdir(request["folder"])
            print(json.dumps({"code": main(request["arguments"]), "said": ""}), flush=True)
            continue
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            import faulthandler

            os.close(read)
            os.dup2(write, 2)
            os.close(write)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            # Threads of the parent are not here; those of pools are waited for when a process ends.
            for pool in (shared_writer, ahead._reading, ahead._parsing):
                pool.cache_clear()
            import concurrent.futures.thread as pools

            pools._threads_queues.clear()
            os.chdir(request["folder"])
            faulthandler.register(signal.SIGUSR1, all_threads=True)
            if request["number"] or not request["at"]:
                _profiled(request["at"], request["number"])
            code = main(request["arguments"])
            sys.setprofile(None)
            sys.exit(code)
        os.close(write)
        ended, parts = True, []
        limit = request["seconds"]
        while True:
            ready, _, _ = select.select([read], [], [], limit)
            if not ready:
                if ended:
                    # First what it does, then its end.
                    ended, limit = False, 5.0
                    os.kill(child, signal.SIGUSR1)
                    continue
                os.kill(child, signal.SIGKILL)
                limit = None
                continue
            part = os.read(read, 1 << 16)
            if not part:
                break
            parts.append(part)
        os.close(read)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(
            json.dumps({"code": code if ended else None, "said": b"".join(parts).decode(errors="replace")}), flush=True
        )


def struck_here(at: str, number: str, *command: str) -> int:
    from eddyline.cli.__main__ import main

    threading.setprofile(_profiled(at, int(number)))
    return main(list(command))


if __name__ == "__main__":
    sys.exit(struck_here(*sys.argv[1:]) if sys.argv[1:] else serve())
