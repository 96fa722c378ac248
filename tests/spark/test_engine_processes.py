"""Processes with engines: found, started once, asked by one at a time, lost, left, and removed with their owner."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pytest

from eddyline.errors import DataProblem, EddylineWarning, Fault, StateProblem
from eddyline.runtime.sharded.ingest.packet import Packet
from eddyline.runtime.sharded.workers import processes as found_by
from eddyline.runtime.sharded.workers.lent import Filling
from eddyline.runtime.sharded.workers.own import OwnProcesses
from eddyline.runtime.sharded.workers.processes import EngineLost, EngineProcesses, folder_of, start
from eddyline.runtime.sharded.workers.serving import read
from eddyline.runtime.sharded.workers.wire import Wire
from tests.spark.asked import ask, engines_below

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def own() -> Iterator[OwnProcesses]:
    made = OwnProcesses()
    yield made
    made.close()


def gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def until(condition, seconds: float = 2.0) -> bool:
    limit = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > limit:
            return False
        time.sleep(0.01)
    return True


@pytest.mark.parametrize("size", [0, 10, 5000, 9_000_000])
def test_messages_arrive_as_they_were(size: int) -> None:
    here, there = socket.socketpair()
    packet = Packet(3, 1, 5, None, size, True, os.urandom(size), None, b"", os.urandom(size // 2))
    sender, receiver = Wire(here), Wire(there)
    with here, there:
        sending = threading.Thread(target=lambda: [sender.send(one) for one in (packet, 7, None, ValueError("x"))])
        sending.start()
        assert receiver.receive() == packet and type(receiver.receive()) is int
        assert receiver.receive() is None and isinstance(receiver.receive(), ValueError)
        sending.join()
        here.close()
        with pytest.raises(EOFError):
            receiver.receive()


def test_what_is_lent_travels_as_a_handle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also on the way through a third process, which reads nothing; and through files, where memory is full."""
    content, more = os.urandom(300_000), os.urandom(9_000)
    for fails in (False, True):
        pairs = socket.socketpair(), socket.socketpair()
        wires = [Wire(end) for pair in pairs for end in pair]
        filling = Filling()
        packets = [Packet(n, 0, n, n, n, False, filling.put(content), None, filling.put(more)) for n in range(2)]
        if fails:
            monkeypatch.setattr("os.posix_fallocate", _full(os.posix_fallocate))
            with pytest.warns(EddylineWarning, match="through files in"):
                packets.append(Packet(2, 0, 2, 2, 2, False, filling.put(content), None, filling.put(more)))
        opened = len(os.listdir("/dev/fd"))
        for packet in packets:
            wires[0].send(packet)
            wires[2].send(wires[1].receive())
            assert read(wires[3].receive()) == packet._replace(blob=content, census=more)
        assert sum(wire.passed for wire in wires) < 4 * len(packets) * 400
        # One handle per memory and process, however many packets there are; here all are one process.
        assert len(os.listdir("/dev/fd")) <= opened + 2
        for end in (*pairs[0], *pairs[1]):
            end.close()


def _full(real: Callable[[int, int, int], None]) -> Callable[[int, int, int], None]:
    """No space, once."""
    left = [OSError(errno.ENOSPC, "No space left on device")]

    def allocate(handle: int, offset: int, size: int) -> None:
        if left:
            raise left.pop()
        real(handle, offset, size)

    return allocate


def test_a_number_has_one_process_however_many_ask_at_once(own: OwnProcesses) -> None:
    packets = [Packet(0, 0, n, n, n, False, bytes(n * 100_000)) for n in range(4)]
    with ThreadPoolExecutor(8) as threads:
        said = list(threads.map(lambda n: ask(own, n % 2, packets=packets), range(8)))
    assert len({one[-1] for one in said}) == 2 and len({said[0][-1], said[2][-1], said[4][-1]}) == 1
    assert all(one[:-2] == packets and one[-2].rows == 7 for one in said)
    assert {one.pid for one in engines_below(own.forking)} == {one[-1] for one in said}


def test_processes_of_one_parent_find_the_same(tmp_path: Path) -> None:
    """As Python workers do, which their executor starts: the process stays where they go, and goes with the parent."""
    python = f"'{sys.executable}' -m tests.spark.asked"
    script = f"for n in 1 2 3 4 5; do {python} 0 '' & done; wait; {python} 1 ''; read end"
    with subprocess.Popen(["sh", "-c", script], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None and parent.stdin is not None
        said = [parent.stdout.readline().split() for _ in range(6)]
        assert {int(one[0]) for one in said} == {parent.pid} and len({one[2] for one in said[:5]}) == 1
        pids, folder = {int(one[2]) for one in said}, Path(said[0][1].decode())
        assert len(pids) == 2 and not any(map(gone, pids)) and len(list(folder.iterdir())) == 2
        # Nothing of those that have forked it is open: whoever reads what they write sees its end.
        kept = [
            os.readlink(f"/proc/{pid}/fd/{fd}") for pid in pids for fd in os.listdir(f"/proc/{pid}/fd") if fd != "2"
        ]
        assert not [one for one in kept if one.startswith("pipe:")]
        parent.kill()
    assert until(lambda: all(map(gone, pids))) and until(lambda: not folder.exists())


def test_one_attempt_at_a_time(own: OwnProcesses) -> None:
    with ThreadPoolExecutor(4) as threads:
        said = list(threads.map(lambda _: ask(own, 0, "sleep"), range(4)))
    times = sorted(tuple(map(float, one[-2].name.split())) for one in said)
    assert all(before[1] <= after[0] for before, after in pairwise(times))


def test_errors_arrive_as_they_are(own: OwnProcesses) -> None:
    with pytest.raises(DataProblem, match="a row is late") as late:
        ask(own, 0, "late")
    assert (late.value.detail, late.value.hint) == ("it is", "wait")
    with pytest.raises(OSError, match="No space left") as full:
        ask(own, 0, "full")
    assert full.value.filename == "a/file" and full.value.errno
    with pytest.raises(Fault, match="Unpicklable") as fault:
        ask(own, 0, "lambda", shard=3)
    assert fault.value.detail.startswith("shard 3; step, line") and fault.value.detail.endswith("of asked.py")


def test_a_lost_process_is_said_and_the_next_task_has_another(own: OwnProcesses) -> None:
    before = ask(own, 0)[-1]
    threading.Timer(0.2, os.kill, (before, signal.SIGKILL)).start()
    with pytest.raises(EngineLost, match="ended in the middle of a task") as lost:
        ask(own, 0, "busy", shard=4)
    assert lost.value.detail == "it had shard 4"
    assert ask(own, 0)[-1] != before
    # Nor is anything lost where it ends between two tasks.
    os.kill(ask(own, 0)[-1], signal.SIGTERM)
    assert ask(own, 0)[-1] != before


def test_who_asked_may_be_killed(own: OwnProcesses) -> None:
    number = os.path.join(own.folder, "0")
    before = ask(own, 0)[-1]
    for _ in range(3):
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(number)
            Wire(asking).receive()
            asking.sendall(b"half")
    assert ask(own, 0)[-1] == before


@pytest.mark.parametrize("struck", ["owner", "program"])
def test_processes_end_with_their_owner_while_they_compute(struck: str) -> None:
    program = "from tests.spark.asked import *; from eddyline.runtime.sharded.workers.own import OwnProcesses\n"
    program += "own = OwnProcesses(); print(own.folder, own.forking, ask(own, 0)[-1], flush=True); ask(own, 0, 'busy')"
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as asking:
        assert asking.stdout is not None
        folder, owner, pid = asking.stdout.readline().split()
        assert until(lambda: psutil.Process(int(pid)).cpu_percent(0.1) > 0, 20)
        os.kill(int(owner) if struck == "owner" else asking.pid, signal.SIGKILL)
        assert until(lambda: gone(int(pid))) and until(lambda: not os.path.exists(folder))
        asking.kill()


def test_an_idle_process_leaves(own: OwnProcesses) -> None:
    program = f"""
from eddyline.runtime.sharded.workers import processes, serving
from tests.spark.asked import ask
processes.serve = lambda *rest: serving.serve(*rest, idle=0.5)

class Forked(processes.EngineProcesses):
    folder = {own.folder!r}

    def start(self, number):
        processes.start(self.folder, number, {own.forking})

print(ask(Forked(), 9)[-1], flush=True)
"""
    said = subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT, stdout=subprocess.PIPE)
    before = int(said.stdout)
    assert until(lambda: gone(before), 20)
    assert not os.path.exists(os.path.join(own.folder, "9"))
    assert ask(own, 9)[-1] != before


class Leaving(EngineProcesses):
    """The process that answers first ends before it says a word, as an idle one does."""

    def __init__(self, own: OwnProcesses) -> None:
        self.folder, self.started, self._own = own.folder, 0, own
        self._listener = socket.socket(socket.AF_UNIX)
        # The first process makes it, the last one removes it.
        os.makedirs(self.folder, 0o700, exist_ok=True)
        self._listener.bind(os.path.join(self.folder, "8"))
        self._listener.listen()
        threading.Timer(0.2, self._listener.close).start()

    def start(self, number: int) -> None:
        self.started += 1
        self._own.start(number)


def test_a_process_that_leaves_when_it_is_asked(own: OwnProcesses) -> None:
    leaving = Leaving(own)
    assert ask(leaving, 8) and leaving.started == 1


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files with a short name."""
    with TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setattr("tempfile.tempdir", None)
        yield Path(folder)


def test_what_killed_owners_left_goes_with_the_next_start(temporary: Path) -> None:
    with subprocess.Popen(["sleep", "100"]) as ended:
        left = Path(folder_of(ended.pid))
        ended.kill()
    mine = Path(folder_of(os.getpid()))
    others = temporary / "eddyline-engines-of-somebody"
    for folder in (left, mine, others):
        folder.mkdir(mode=0o700)
        (folder / "0").touch()
    own = OwnProcesses()
    try:
        ask(own, 0)
        assert not left.exists() and mine.exists() and others.exists()
    finally:
        own.close()
    assert until(lambda: not os.path.exists(own.folder))


def test_a_folder_that_others_may_enter_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o755)
    (tmp_path / "link").symlink_to(tmp_path)
    for name in ("open", "link"):
        with pytest.raises(StateProblem, match="not a folder of this user alone"):
            start(str(tmp_path / name), 0, os.getpid())


def test_a_long_folder_for_temporary_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/tmp/" + "x" * 90)
    assert os.path.dirname(folder_of(os.getpid())) == "/tmp"


def test_a_process_that_never_answers_ends_the_task(own: OwnProcesses, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own, "start", lambda number: None)
    with pytest.raises(StateProblem, match="does not start") as problem:
        ask(own, 7)
    assert str(found_by._STARTS) in problem.value.detail
