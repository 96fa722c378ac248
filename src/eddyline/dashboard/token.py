"""The secret that every request to a dashboard needs.

Answer   `job_token` gives the token of a job's folder: random, made by the first call, kept in a file that only its owner
         may read. `token_from` reads the token from a file of the user.
State    The file `dashboard/token` of the job's folder.
Limits   Every dashboard of one job has the same token; removing the file changes it.
"""

from __future__ import annotations

import os
import re
import secrets

from eddyline.errors import UserError
from eddyline.runtime.reporting.places import ReportPlaces, replace_file

#: Random bytes of a token: 192 bits.
_BYTES = 24
#: Characters that need no escape in an address, a cookie and a header.
_FORM = re.compile(r"[A-Za-z0-9._~-]{16,256}")


def job_token(folder: str) -> str:
    places = ReportPlaces(folder)
    try:
        with open(places.token, encoding="ascii") as file:
            found = file.read().strip()
        if _FORM.fullmatch(found):
            os.chmod(places.token, 0o600)
            return found
    except (OSError, UnicodeDecodeError):
        pass
    places.make()
    made = secrets.token_urlsafe(_BYTES)
    replace_file(places.token, f"{made}\n".encode())
    return made


def token_from(path: str) -> str:
    """The token in a file of the user.

    Raises:
        UserError: the file cannot be read, or its content is too short or has other characters.
    """
    try:
        with open(path, encoding="utf-8") as file:
            found = file.read().strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise UserError(f"the token file {path} cannot be read", detail=str(problem)) from problem
    if not _FORM.fullmatch(found):
        raise UserError(
            f"the token in {path} cannot be used",
            detail="a token has 16 to 256 letters, digits and . _ ~ -",
            hint="make one with: openssl rand -hex 24",
        )
    return found
