"""Files that commands read: jobs, and documents for the tools that plan.

Answer   `read_job` gives the text of a job file, `read_document` the JSON object in a file.
State    None.
Limits   Both hold a whole file in memory.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from eddyline.errors import PlanProblem, UserError


def read_job(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        raise UserError(f"there is no job file {path}", hint="paths are relative to the working directory") from None
    except (OSError, UnicodeDecodeError) as problem:
        raise UserError(f"the job file {path} cannot be read", detail=str(problem)) from problem


def read_document(path: Path, page: str, example: str) -> dict[str, Any]:
    """The JSON object in a file; `-` reads standard input. Errors name the page of its form and an example."""
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        hint = "a JSON file, or - for standard input"
        raise PlanProblem(f"{path} cannot be read", detail=str(problem), hint=hint) from problem
    try:
        document = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as problem:
        raise PlanProblem(f"{path} is not JSON", detail=str(problem), hint=f"{page} shows the form") from problem
    if not isinstance(document, dict):
        raise PlanProblem(f"{path} holds no JSON object", hint=example)
    return document
