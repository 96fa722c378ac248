"""Many runs of the command line in processes of their own, without loading the engine for each: `python -m
tests.fault.forked`.

Answer   `Runs` starts a process that loads the engine once and runs a job to warm it up. `run` has it fork a child in
         which the strikes of a plan are active and the command line runs; it returns the exit code (negative: the
         signal) and what standard error has.
Limits   A child begins with loaded modules and compiled kernels; everything that a command does by itself happens in
         the child. The whole command, loading included, is run by the tests of random kills.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.fault.strike import Plan, activate
from tests.property.pieces import make_small

ROOT = Path(__file__).parents[2]


class Runs:
    def __init__(self, warm_up: Path) -> None:
        """`warm_up` is a folder with a job file `job.sql`, which is run once."""
        environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fault.forked"],
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

    def run(
        self, folder: Path, *arguments: str, plan: Plan | None = None, seconds: float | None = None, small: bool = False
    ) -> tuple[int, str]:
        """With `seconds` the process is killed after that time, if it has not ended. With `small` results leave an
        epoch three at a time,
        and an epoch has several files."""
        plans = None if plan is None else asdict(plan)
        return self._ask(
            {"folder": str(folder), "arguments": arguments, "plan": plans, "seconds": seconds, "small": small}
        )

    def _ask(self, request: dict[str, Any]) -> tuple[int, str]:
        assert self._process.stdin is not None and self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        answer = json.loads(self._process.stdout.readline())
        return answer["code"], answer["said"]

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def serve() -> None:
    from eddyline.cli.__main__ import main
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
            os.close(read)
            os.dup2(write, 2)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            # The writing thread of the parent is not here.
            shared_writer.cache_clear()
            os.chdir(request["folder"])
            if request["small"]:
                make_small(3, 20)
            if request["plan"] is not None:
                found = request["plan"]
                activate(Plan(**found | {"folders": tuple(found["folders"]), "sites": tuple(found["sites"])}))
            code = 70
            try:
                code = main(request["arguments"])
            except SystemExit as ended:
                code = int(ended.code or 0)
            except BaseException:
                import traceback

                traceback.print_exc()
                code = 1
            finally:
                sys.stderr.flush()
                os._exit(code)
        os.close(write)
        if request["seconds"] is not None:
            # Its descriptor can be read when the child has ended.
            ended = os.pidfd_open(child)
            select.select([ended], [], [], request["seconds"])
            os.close(ended)
            os.kill(child, signal.SIGKILL)
        with open(read, encoding="utf-8", errors="replace") as pipe:
            said = pipe.read()
        status = os.waitpid(child, 0)[1]
        print(json.dumps({"code": os.waitstatus_to_exitcode(status), "said": said}), flush=True)


if __name__ == "__main__":
    serve()
