"""Errors of workers as one readable message on the driver.

Answer   `reported` turns whatever goes wrong inside a worker into one error that survives the way through the JVM;
         `readable` finds it again in what Spark raises and gives it back as the error it was.
Limits   What Spark itself says (a lost executor, a full disk under the checkpoint) is shortened to its first cause.
"""

from __future__ import annotations

import base64
import json
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import eddyline.errors as errors
from eddyline.runtime.spark.job.session import log_path

_MARK = "eddyline-error:"


@contextmanager
def reported(where: str) -> Iterator[None]:
    """Around the work of one task; `where` names stream, shard or file."""
    try:
        yield
    except errors.EddylineError as problem:
        raise RuntimeError(_marked(type(problem).__name__, problem.message, problem.detail or where, problem.hint)) from problem
    except Exception as problem:
        frame = traceback.extract_tb(problem.__traceback__)[-1]
        place = f"{where}; {frame.name}, line {frame.lineno} of {frame.filename.rsplit('/', 1)[-1]}"
        text = _marked("Fault", f"{type(problem).__name__}: {problem}", place, "this is a fault of the engine; please report it")
        raise RuntimeError(text) from problem


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
    causes = re.findall(r"(?:Caused by|Exception|Error): ([^\n]+)", text) or said.strip().splitlines() or [type(problem).__name__]
    return errors.Fault("Spark stopped the job", detail=causes[-1][:500], hint=f"Spark's own words are in {log_path()}")


def _marked(kind: str, message: str, detail: str, hint: str) -> str:
    packed = base64.b64encode(json.dumps([kind, message, detail, hint]).encode()).decode()
    return f"{message} ({detail}) {_MARK}{packed}"
