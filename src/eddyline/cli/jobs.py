"""Job files: reading them, for every command that takes one."""

from __future__ import annotations

from eddyline.errors import UserError


def read_job(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        raise UserError(f"there is no job file {path}", hint="paths are relative to the working directory") from None
    except (OSError, UnicodeDecodeError) as problem:
        raise UserError(f"the job file {path} cannot be read", detail=str(problem)) from problem
