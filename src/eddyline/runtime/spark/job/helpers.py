"""Helper processes of Spark, forked from one that has loaded what they need.

Answer   Spark starts a helper for the source of every run as `python -m MODULE`, which loads PySpark and the engine for
         longer than a small batch takes. `quick_helpers` names Spark another interpreter for functions that are made
         inside it: a script that has the helper forked. `start` makes the script and the process that forks.
State    That process, which ends with this one; script and socket lie in a folder of the caller's.
Limits   On this machine. Where nobody answers at the socket, the script becomes the real interpreter.
"""

from __future__ import annotations

import json
import os
import runpy
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkContext

#: The end of the pipe that is open as long as this process lives -> what forks, and ends with it.
_FORKING: dict[int, subprocess.Popen[bytes]] = {}
_SCRIPT, _CLIENT, _SOCKET = "python", "client.py", "socket"
#: What asks for a helper: arguments, variables, folder and the first three files. It ends with the helper, and the
#: helper with it.
_ASK = """
import json, os, socket, sys
place, real, *arguments = sys.argv[1:]
try:
    asked = socket.socket(socket.AF_UNIX)
    asked.connect(place)
except OSError:
    os.execv(real, [real, *arguments])
body = json.dumps([arguments, dict(os.environ), os.getcwd()]).encode()
socket.send_fds(asked, [len(body).to_bytes(8, "big")], [0, 1, 2])
asked.sendall(body)
sys.exit((asked.recv(1) or b"\\1")[0])
"""


def start(folder: Path) -> list[Path]:
    """Begin to load; what has been made in the folder."""
    script, client, place = folder / _SCRIPT, folder / _CLIENT, folder / _SOCKET
    client.write_text(_ASK)
    words = [sys.executable, "-I", "-S", str(client), str(place), sys.executable]
    script.write_text(f'#!/bin/sh\nexec {" ".join(map(shlex.quote, words))} "$@"\n')
    script.chmod(0o700)
    reading, writing = os.pipe()
    _FORKING[writing] = subprocess.Popen(
        [sys.executable, "-m", __name__, str(place)],
        stdin=reading,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        start_new_session=True,
    )
    os.close(reading)
    return [script, client, place]


@contextmanager
def quick_helpers(context: SparkContext) -> Iterator[None]:
    """Functions and sources that are made inside have their helpers forked."""
    usual, home = context.pythonExec, context.environment.get(HOME)
    if home is not None:
        context.pythonExec = os.path.join(home, _SCRIPT)
    try:
        yield
    finally:
        context.pythonExec = usual


#: In the environment of a context: the folder with the script.
HOME = "EDDYLINE_HELPERS"


def _serve(place: str) -> None:

    import eddyline.runtime.spark.ingest.sources  # noqa: F401

    threading.Thread(target=_end_with_input, daemon=True).start()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(place)
        os.chmod(place, 0o600)
        listener.listen()
        while True:
            asked, _ = listener.accept()
            with asked:
                if os.fork() == 0:
                    listener.close()
                    _help(asked)


def _end_with_input() -> None:
    # Not by the object for the input: a fork would inherit its lock.
    while os.read(0, 1):
        pass
    os._exit(0)


def _help(asked: socket.socket) -> None:
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        head, files, _, _ = socket.recv_fds(asked, 8, 3)
        with asked.makefile("rb") as reader:
            arguments, variables, folder = json.loads(reader.read(int.from_bytes(head, "big")))
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        os.environ.clear()
        os.environ.update(variables)
        os.chdir(folder)
        further = [folder, *variables.get("PYTHONPATH", "").split(os.pathsep)]
        sys.path[:0] = [path for path in further if path and path not in sys.path]
        threading.Thread(target=_end_with, args=(asked,), daemon=True).start()
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as said:
        code = said.code if isinstance(said.code, int) else int(said.code is not None)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        asked.send(bytes([code & 0xFF]))
        os._exit(code)


def _end_with(asked: socket.socket) -> None:
    if not asked.recv(1):
        os._exit(1)


if __name__ == "__main__":
    _serve(sys.argv[1])
