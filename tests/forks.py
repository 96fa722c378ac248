"""Commands in processes of their own that need not load the engine: `python -m tests.forks`.

Answer   `Command` is a `subprocess.Popen`, and `run` a `subprocess.run`, of `python -m eddyline …`, of the script
         `eddyline …` and of `python FILE …`: the same pipes, signals and exit codes.
State    One server per process of tests. The first command starts it: it loads the engine and runs a small job. It
         forks a child for each command. The child has the folder, the environment and the open files of the command;
         a `sitecustomize.py` of its PYTHONPATH runs in it first.
Limits   A child begins with loaded modules and kernels: what is tested about a start calls `subprocess`. Standard
         input that is not given is empty. Each kind of command has a test that starts it as a user does.
"""

from __future__ import annotations

import fcntl
import gc
import importlib
import json
import os
import runpy
import select
import shlex
import signal
import socket
import subprocess
import sys
import termios
import threading
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parents[1]
WARM = """
SET epoch_rows = 2;
CREATE STREAM a (k BIGINT, s STRING, ts TIMESTAMP) WITH (format = 'csv', path = 'a.csv', time = 'ts');
CREATE STREAM b (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = 'b.parquet', time = 'ts');
CREATE QUERY filtered AS SELECT k, s FROM a WHERE k > 0;
CREATE QUERY pairs AS SELECT a.k, a.s, b.v FROM a [RANGE 20 SECONDS], b [RANGE 9 SECONDS] WHERE a.k = b.k;
CREATE QUERY sums AS SELECT k, SUM(v) AS v FROM b [RANGE 30 SECONDS] GROUP BY k;
"""


class Line:
    """A connection to the server."""

    def __init__(self, path: str) -> None:
        self._asking = threading.Lock()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.connect(path)

    def ask(self, request: dict[str, Any], files: list[int]) -> Any:
        with self._asking:
            socket.send_fds(self._socket, [b"f"], files)
            # A message of this kind of socket has a limit; an environment may be longer.
            text = json.dumps(request).encode()
            for at in range(0, len(text), 60_000):
                self._socket.send(b"m" + text[at : at + 60_000])
            self._socket.send(b"e")
            answer = self._socket.recv(1_000)
        assert answer, "the process that forks commands has ended"
        return json.loads(answer)

    def start(
        self, arguments: list[str], cwd: str, environment: dict[str, str], files: list[int], session: bool
    ) -> Any:
        """The number of a process, whose parent is the server."""
        request = {"arguments": arguments, "cwd": cwd, "environment": environment, "session": session}
        return self.ask(request, files)

    def status(self, pid: int) -> Any:
        """As `os.waitpid` says it, of a process that has ended."""
        return self.ask({"wait": pid}, [])

    def close(self) -> None:
        self._socket.close()


def script_of(python: str, path: str) -> str:
    """A program for shells. There may be blanks in the path of Python, which the first line of a script cannot have."""
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tests.forks import from_shell; sys.exit(from_shell({path!r}))"
    return f'#!/bin/sh\nexec {shlex.quote(python)} -IS -c {shlex.quote(program)} "$@"\n'


class Server(Line):
    """The server itself, with the connection that it lives as long as."""

    def __init__(self) -> None:
        self._folder = TemporaryDirectory(prefix="eddyline forks ")
        path = f"{self._folder.name}/socket"
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
            listening.bind(path)
            listening.listen(64)
            environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.forks", str(listening.fileno())],
                pass_fds=[listening.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd=ROOT,
                env=environment,
                start_new_session=True,
            )
            super().__init__(path)
        #: A folder for PATH: its `eddyline` is a forked one, for shells.
        self.path = self._folder.name
        script = Path(self.path, "eddyline")
        script.write_text(script_of(sys.executable, path))
        script.chmod(0o700)

    def close(self) -> None:
        super().close()
        self._process.wait()
        self._folder.cleanup()


@cache
def server() -> Server:
    return Server()


def close() -> None:
    """The server ends, if there is one."""
    if server.cache_info().currsize:
        server().close()
        server.cache_clear()


class Command(subprocess.Popen[Any]):
    """A command that is forked by the server, which is its parent."""

    def _execute_child(self, args: Any, executable: Any, preexec_fn: Any, *given: Any) -> None:
        _, pass_fds, cwd, env, _, _, shell, p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite = given[:13]
        assert not (preexec_fn or pass_fds or shell or executable)
        files = [p2cread, 1 if c2pwrite == -1 else c2pwrite, 2 if errwrite == -1 else errwrite]
        empty = os.open(os.devnull, os.O_RDONLY) if p2cread == -1 else -1
        self.pid = server().start(
            list(map(str, args)),
            str(cwd or os.getcwd()),
            dict(os.environ if env is None else env),
            [empty if file == -1 else file for file in files],
            bool(given[-2]),
        )
        self._child_created = True
        self._ends = os.pidfd_open(self.pid)
        if empty != -1:
            os.close(empty)
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)  # type: ignore[attr-defined]

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if not select.select([self._ends], [], [], None if wait_flags == 0 else 0)[0]:
            return 0, 0
        os.close(self._ends)
        return self.pid, server().status(self.pid)

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        with self._waitpid_lock:  # type: ignore[attr-defined]
            if self.returncode is None:
                pid, status = self._try_wait(os.WNOHANG)
                if pid == self.pid:
                    self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


def run(
    command: list[str], capture_output: bool = False, timeout: float | None = None, check: bool = False, **more: Any
) -> subprocess.CompletedProcess[Any]:
    if capture_output:
        more |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Command(command, **more) as process:
        try:
            out, errors = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(command, process.returncode, out, errors)
    if check:
        done.check_returncode()
    return done


def from_shell(path: str) -> int:
    """What the script `eddyline` does that shells find."""
    line = Line(path)
    pid = line.start(["eddyline", *sys.argv[1:]], os.getcwd(), dict(os.environ), [0, 1, 2], False)
    select.select([os.pidfd_open(pid)], [], [])
    code = os.waitstatus_to_exitcode(line.status(pid))
    return code if code >= 0 else 128 - code


def serve(listening: socket.socket) -> None:
    ends = [listening.accept()[0]]
    while True:
        for ready in select.select([listening, *ends], [], [])[0]:
            if ready is listening:
                ends.append(listening.accept()[0])
                continue
            said, files, _, _ = socket.recv_fds(ready, 1, 3)
            if said:
                answer(ready, files, [listening, *ends])
            elif ready is ends[0]:
                return
            else:
                ends.remove(ready)
                ready.close()


def answer(end: socket.socket, files: list[int], opened: list[socket.socket]) -> None:
    parts = []
    while (part := end.recv(60_001)) != b"e":
        parts.append(part[1:])
    request = json.loads(b"".join(parts))
    if "wait" in request:
        end.send(json.dumps(os.waitpid(request["wait"], 0)[1]).encode())
        return
    child = os.fork()
    if child == 0:
        for own in opened:
            own.close()
        # Its exit is that of a program: what was registered for it runs, and threads are waited for.
        sys.exit(called(request, files))
    for file in files:
        os.close(file)
    end.send(json.dumps(child).encode())


def called(request: dict[str, Any], files: list[int]) -> int:
    """The command, in a child."""
    for place, file in enumerate(files):
        os.dup2(file, place)
        os.close(file)
    if request["session"]:
        os.setsid()
        if os.isatty(0):
            # The terminal of its own.
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    for stream, file in ((sys.stdout, 1), (sys.stderr, 2)):
        stream.reconfigure(line_buffering=file == 2 or os.isatty(file))  # type: ignore[attr-defined]
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    program, *arguments = request["arguments"]
    folders = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    # As Python begins: the folder of the program, what the variable says, the rest.
    is_file = arguments[:1] != ["-m"] and Path(program).name != "eddyline"
    sys.path[:0] = [str(Path(arguments[0]).parent) if is_file else request["cwd"], *folders]
    importlib.invalidate_caches()
    # Another package of this name: a copy that a test has changed. What it does not have is loaded.
    if any(Path(folder, "eddyline").is_dir() and Path(folder) != ROOT / "src" for folder in folders):
        for name in [name for name in sys.modules if name.partition(".")[0] == "eddyline"]:
            del sys.modules[name]
    if any(Path(folder, "sitecustomize.py").exists() for folder in folders):
        sys.modules.pop("sitecustomize", None)
        importlib.import_module("sitecustomize")
    if is_file:
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")
        return 0
    if arguments[:1] == ["-m"]:
        assert arguments[1] in ("eddyline", "eddyline.cli"), arguments
        arguments = arguments[2:]
    from eddyline.cli.__main__ import main

    sys.argv = ["eddyline", *arguments]
    return main()


def warm() -> None:
    """Load what jobs need, by running one; its threads are not in a child."""
    import concurrent.futures.thread as pools

    import pyarrow as pa
    import pyarrow.parquet as parquet

    from eddyline.cli.__main__ import main
    from eddyline.connectors.files import ahead
    from eddyline.connectors.results.output import shared_writer

    with TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("job.sql").write_text(WARM)
        Path("a.csv").write_text("k,s,ts\n" + "".join(f"{n % 2},t{n},1970-01-01 00:00:0{n}\n" for n in range(6)))
        ts = pa.array([n * 1_000_000 for n in range(6)], pa.timestamp("us"))
        parquet.write_table(pa.table({"k": [0, 1] * 3, "v": range(6), "ts": ts}), "b.parquet")
        assert main(["run", "job.sql", "--once", "--quiet", "--out", "out", "--checkpoint", "state"]) == 0
        os.chdir(ROOT)
    for pool in (shared_writer, ahead._reading, ahead._parsing):
        pool.cache_clear()
    pools._threads_queues.clear()  # type: ignore[attr-defined]
    # A child looks for garbage of its own only.
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    warm()
    serve(socket.socket(fileno=int(sys.argv[1])))
