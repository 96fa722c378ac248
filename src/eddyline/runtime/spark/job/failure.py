"""Errors of workers as one readable message on the driver.

Answer   `reported` turns whatever goes wrong inside a worker into one error that survives the way through the JVM;
         `readable` finds it again in what Spark raises and gives it back as the error it was.
         A full disk, missing permissions and a damaged checkpoint are errors of their own, whichever process meets
         them.
Limits   What else Spark itself says (a lost executor) is shortened to its first cause.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]

import eddyline.errors as errors
from eddyline.runtime.recovery.checkpoint_identity import RESTORE
from eddyline.runtime.spark.job.session import log_path

_MARK = "eddyline-error:"

_ROOM = "check space and permissions; then the same command continues from the last batch that was committed"
#: What the JVM says of files that it cannot write, and of files that are not as it left them.
_NO_ROOM = r"No space left on device|Disk quota exceeded|Permission denied|AccessDeniedException|Read-only file system"
_LOST_PROCESS = r"Broken pipe|Connection reset|Python worker|reading the port number"
_SHUT_DOWN = "stopped SparkContext|SparkContext was shut down"
_TOO_SLOW = "Python worker failed to connect back."
_LOST_WORKER = r"Python worker|reading the port number|PythonException"
_DAMAGED = (
    r"Checksum ?[eE]|Incomplete log file|EOFException|Json\w*Exception|malformed|[Cc]orrupt|LoadStateStore|CANNOT_LOAD_STATE_STORE"
    r"|FileNotFoundException|NoSuchFileException|fasterxml|missing state files"
)


@contextmanager
def reported(where: str) -> Iterator[None]:
    """Around the work of one task; `where` names stream, shard or file."""
    try:
        yield
    except errors.EddylineError as problem:
        raise RuntimeError(_of(problem, where)) from problem
    except OSError as problem:
        # Errors without a number are not of the system, and those of connections are not of files.
        if problem.errno is None or isinstance(problem, ConnectionError):
            raise RuntimeError(_of(errors.as_fault(problem, where), where)) from problem
        named = f"{problem.filename}: " if problem.filename else ""
        raise RuntimeError(
            _marked("StateProblem", "a file cannot be used", f"{named}{problem.strerror}; {where}", _ROOM)
        ) from problem
    except Exception as problem:
        if _MARK in str(problem):
            # Work inside of this work has reported it.
            raise
        raise RuntimeError(_of(errors.as_fault(problem, where), where)) from problem


def readable(problem: BaseException) -> errors.EddylineError:
    """The error that a worker reported, or the shortest true thing to say about what Spark raised."""
    if isinstance(problem, errors.EddylineError):
        return problem
    text = str(problem)
    found = re.search(re.escape(_MARK) + r"([A-Za-z0-9+/=]+)", text)
    if found:
        kind, message, detail, hint = json.loads(base64.b64decode(found[1]))
        error = getattr(errors, kind, errors.Fault)
        return error(message, detail=detail, hint=hint)
    # Below the message of a streaming query lie its identifier, its offsets and its plan.
    said = text.split("=== Streaming Query ===")[0]
    words = f"Spark's own words are in {log_path()}"
    if is_gone(problem):
        hint = f"the same command continues from the last batch that was committed; {words}"
        return errors.StateProblem(
            "Spark ended in the middle of the job", detail=said.strip().splitlines()[0][:500], hint=hint
        )
    if _TOO_SLOW in text:
        hint = (
            f"the machine may be overloaded; the same command continues from the last batch that was committed; {words}"
        )
        return errors.StateProblem(
            "a Python process of Spark did not start in time", detail=f"after ten seconds: {_TOO_SLOW}", hint=hint
        )
    full = re.search(_NO_ROOM, text)
    if full:
        return errors.StateProblem("Spark cannot use its files", detail=_line(text, full), hint=f"{_ROOM}; {words}")
    damaged = re.search(_DAMAGED, text)
    # A worker that was killed ends its channel too early as well.
    if damaged and not re.search(_LOST_WORKER, text):
        message = "a file of the checkpoint is damaged or missing"
        return errors.CheckpointProblem(message, detail=_line(text, damaged), hint=f"{RESTORE}; {words}")
    causes = (
        re.findall(r"(?:Caused by|Exception|Error): ([^\n]+)", text)
        or said.strip().splitlines()
        or [type(problem).__name__]
    )
    return errors.Fault("Spark stopped the job", detail=causes[-1][:500], hint=words)


def is_gone(problem: BaseException) -> bool:
    """Whether there is no Spark that could answer: its JVM was killed, by hand or for want of memory, or is about to
    end by a signal."""
    if isinstance(problem, ConnectionError) or (
        isinstance(problem, Py4JError) and not isinstance(problem, Py4JJavaError)
    ):
        return True
    return re.search(_SHUT_DOWN, str(problem)) is not None


def is_lost(problem: BaseException) -> bool:
    """Whether a process of Spark has gone, the JVM or a Python process, and no code of a job has failed."""
    text = str(problem)
    return is_gone(problem) or (_MARK not in text and re.search(_LOST_PROCESS, text) is not None)


def _line(text: str, found: re.Match[str]) -> str:
    """The line in which something was found."""
    end = text.find("\n", found.end())
    return text[text.rfind("\n", 0, found.start()) + 1 : end if end >= 0 else len(text)].strip()[:500]


def _of(problem: errors.EddylineError, where: str) -> str:
    kind = next(one.__name__ for one in type(problem).__mro__ if hasattr(errors, one.__name__))
    return _marked(kind, problem.message, problem.detail or where, problem.hint)


def _marked(kind: str, message: str, detail: str, hint: str) -> str:
    packed = base64.b64encode(json.dumps([kind, message, detail, hint]).encode()).decode()
    return f"{message} ({detail}) {_MARK}{packed}"
