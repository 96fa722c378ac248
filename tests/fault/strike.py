"""Strikes at one of a job's file operations: the process is killed there, the disk is full, or permission is denied.

Answer   `activate(Plan(…))` numbers every operation of this process by which files below some folders change: making,
         opening for writing, writing, making sure of the disk, renaming, removing. At the operation with the given
         number it does what the plan says. With the environment variable EDDYLINE_STRIKE (`Plan.environment`) and
         `tests/fault/hook` on PYTHONPATH every Python process of a job does the same, Spark's driver and workers too;
         they count together.
State    The log of the plan, to which every operation is written before it happens: number, kind, file and the
         functions of eddyline that asked for it (`operations` reads it).
Limits   Operations of Python code. What C++ and the JVM write by themselves is not seen.
"""

from __future__ import annotations

import builtins
import errno
import io
import json
import os
import signal
import sys
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

VARIABLE = "EDDYLINE_STRIKE"
HOOK = Path(__file__).parent / "hook"
#: Length of a line of the log: where a line ends says its number, in whichever process it was written.
_LINE = 512
#: Operations that need space, and stop when the disk is full.
GROWING = ("open", "write", "fsync", "mkdir", "rename", "link")
EVERY = ("every",)


@dataclass(frozen=True)
class Plan:
    #: Operations below these folders count.
    folders: tuple[str, ...]
    log: str
    #: The number of the operation, from 1; 0: only count.
    at: int = 0
    #: "kill": before the operation; "torn": after half of a write, otherwise the same; "full", "denied": this operation
    #: and all later ones of its kind fail; "full once": only this one.
    how: str = "kill"
    #: Instead of a number: the sites (see `Operation.site`) at which to strike, each once in all processes together;
    #: `EVERY` stands for all that there are. `marks` is the folder in which they note it, outside of the folders above.
    sites: tuple[str, ...] = ()
    marks: str = ""

    def struck(self) -> list[str]:
        """The sites that were reached."""
        return [site for site in self.sites if os.path.exists(_mark(self.marks, site))]

    def environment(self) -> dict[str, str]:
        paths = [str(HOOK), str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
        return {VARIABLE: json.dumps(asdict(self)), "PYTHONPATH": os.pathsep.join(path for path in paths if path)}


@dataclass(frozen=True)
class Operation:
    number: int
    kind: str
    path: str
    #: The functions of eddyline under way, innermost first.
    asked: str

    @property
    def site(self) -> str:
        """Where in the code it happens."""
        return f"{self.kind} < {self.asked}"


def operations(log: str | Path) -> list[Operation]:
    found = Path(log).read_bytes() if Path(log).exists() else b""
    lines = [os.fsdecode(found[at : at + _LINE].split(b"\0")[0]) for at in range(0, len(found), _LINE)]
    return [Operation(number, *line.split("\t")) for number, line in enumerate(lines, 1)]


def activate_from_environment() -> None:
    if VARIABLE in os.environ:
        found = json.loads(os.environ[VARIABLE])
        activate(Plan(**found | {"folders": tuple(found["folders"]), "sites": tuple(found["sites"])}))


def activate(plan: Plan) -> None:
    """From here on, until the process ends."""
    _Striker(plan).install()


class _Striker:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.folders = tuple(os.path.realpath(folder) for folder in plan.folders)
        self.log = os.open(plan.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self.failing = False
        # The functions themselves: they are replaced below.
        self.write, self.fsync, self.open = os.write, os.fsync, builtins.open

    def install(self) -> None:
        os.write, os.fsync = self._write, self._fsync  # type: ignore[assignment]
        os.pwrite = self._placed(os.pwrite)  # type: ignore[assignment]
        builtins.open = io.open = self._open  # type: ignore[assignment]
        sys.addaudithook(self._heard)

    # -- what happens

    def _strike(self, kind: str, path: str) -> bool:
        """Count an operation; whether it is the one, and is to be done by half."""
        path = os.path.realpath(path)
        if not any(path == folder or path.startswith(folder + os.sep) for folder in self.folders):
            return False
        asked = _asked()[:250]
        line = b"\t".join((kind.encode(), os.fsencode(path)[-200:], asked.encode()))[: _LINE - 1]
        self.write(self.log, line.ljust(_LINE, b"\0"))
        number = os.lseek(self.log, 0, os.SEEK_CUR) // _LINE
        plan = self.plan
        if plan.sites:
            half = not self.failing and self._strike_site(f"{kind} < {asked}", kind)
            if self.failing and kind in GROWING:
                self._fail(path)
            return half
        if plan.how in ("kill", "torn"):
            if number == plan.at:
                if plan.how == "torn" and kind == "write":
                    return True
                os.kill(os.getpid(), signal.SIGKILL)
            return False
        hit = number == plan.at if plan.how == "full once" else bool(plan.at) and number >= plan.at
        if hit and kind in GROWING:
            self._fail(path)
        return False

    def _strike_site(self, site: str, kind: str) -> bool:
        if self.plan.sites != EVERY and site not in self.plan.sites:
            return False
        if self.plan.how in ("full", "denied") and kind not in GROWING:
            return False
        try:
            os.close(os.open(_mark(self.plan.marks, site), os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            return False
        if self.plan.how == "torn" and kind == "write":
            return True
        if self.plan.how in ("full", "denied"):
            self.failing = True
            return False
        os.kill(os.getpid(), signal.SIGKILL)
        return False

    def _fail(self, path: str) -> None:
        code = errno.EACCES if self.plan.how == "denied" else errno.ENOSPC
        raise OSError(code, os.strerror(code), path)

    def _heard(self, event: str, args: tuple[Any, ...]) -> None:
        """Operations that Python tells of before they happen."""
        if event == "open" and isinstance(args[0], str | bytes) and isinstance(args[2], int):
            if args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                self._strike("open", os.fsdecode(args[0]))
        elif event in ("os.rename", "os.link"):
            self._strike(event[3:], os.fsdecode(args[1]))
        elif event in ("os.remove", "os.mkdir", "os.rmdir", "os.chmod"):
            self._strike(event[3:], os.fsdecode(args[0]))
        elif event == "os.truncate":
            self._strike("truncate", _path(args[0]))

    def _write(self, file: int, data: Any) -> int:
        if self._strike("write", _path(file)):
            self.write(file, memoryview(data).cast("B")[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        return self.write(file, data)

    def _placed(self, function: Callable[..., int]) -> Callable[..., int]:
        def pwrite(file: int, data: Any, offset: int) -> int:
            if self._strike("write", _path(file)):
                function(file, memoryview(data).cast("B")[: len(data) // 2], offset)
                os.kill(os.getpid(), signal.SIGKILL)
            return function(file, data, offset)

        return pwrite

    def _fsync(self, file: Any) -> None:
        self._strike("fsync", _path(file if isinstance(file, int) else file.fileno()))
        self.fsync(file)

    def _open(self, file: Any, mode: str = "r", buffering: int = -1, *more: Any, **named: Any) -> Any:
        """Python's own, with writes that are counted."""
        if isinstance(file, int) or "opener" in named or not set(mode) & set("wax+"):
            return self.open(file, mode, buffering, *more, **named)
        raw = _Counted(file, mode.replace("t", "").replace("b", ""))
        raw.striker = self
        buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, *more, **named)  # type: ignore[type-var]


class _Counted(io.FileIO):
    striker: _Striker

    def write(self, data: Any) -> int:
        if self.striker._strike("write", _path(self.fileno())):
            super().write(memoryview(data).cast("B")[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        return super().write(data)


def _path(file: Any) -> str:
    if not isinstance(file, int):
        return os.fsdecode(file)
    try:
        return os.readlink(f"/proc/self/fd/{file}")
    except OSError:
        return ""


def _mark(folder: str, site: str) -> str:
    return os.path.join(folder, f"{zlib.crc32(site.encode()):08x}")


def _asked() -> str:
    """The functions of eddyline on the stack, innermost first, at most four.

    The package of a frame says whose it is: a checkout, and any folder above it, may have the name of the package.
    """
    frame = sys._getframe(2)
    found: list[str] = []
    while frame is not None and len(found) < 4:
        code = frame.f_code
        # Methods that a dataclass has made have no file.
        if str(frame.f_globals.get("__package__")).partition(".")[0] == "eddyline" and not code.co_filename.startswith(
            "<"
        ):
            found.append(f"{Path(code.co_filename).stem}.{code.co_name}")
        frame = frame.f_back  # type: ignore[assignment]
    return " < ".join(found)
