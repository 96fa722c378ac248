"""What pages send to a job: queries to try, to add, to change and to drop, requests to templates.

Answer   Everything becomes a control record, as with `eddyline query` and `eddyline request`, and is checked before.
         A mistake comes back with the engine's own message, detail, hint, line and column. `outcome` gives what became
         of a record.
State    Control records, and one file per lease.
Limits   A query that is tried has a lease of 30 seconds, which its page renews; 20 are tried at once. A text has at
         most 100,000 characters, and 100 requests. A job that does not run takes no requests, tries nothing.
"""

from __future__ import annotations

import os
import re
import secrets
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from eddyline.dashboard.vocabulary import vocabulary
from eddyline.errors import EddylineError, UserError
from eddyline.language.catalog import Catalog
from eddyline.language.requests.request_texts import bind_request_texts, parse_requests
from eddyline.model.schema import Stream, Table
from eddyline.plan.prepare import check, notices
from eddyline.runtime.control.answers import check_running, wait_for
from eddyline.runtime.control.control import ControlFolder, apply_record, planned_job
from eddyline.runtime.control.control_record import add_record, drop_record, request_record, set_record
from eddyline.runtime.reporting.places import ReportPlaces
from eddyline.runtime.reporting.samples import TAIL, shown_rows

#: Seconds that a tried query lives without a page that reads its rows.
LEASE_SECONDS = 30
_PREFIX = "try_"
#: Seconds that a page waits for the answer to a request, and rows of it that it is shown.
_PATIENCE, _ROWS = 15.0, 1_000
#: The most that a page asks for: characters of a text, requests in it, queries that are tried at once.
_CHARACTERS, _REQUESTS, _TRIED = 100_000, 100, 20


class Console:
    def __init__(self, folder: str) -> None:
        self.control = ControlFolder(folder)
        self.places = ReportPlaces(folder)

    def add(self, sql: str) -> dict[str, Any]:
        """Add the queries of some statements."""
        return self._added(sql)

    def attempt(self, select: str) -> dict[str, Any]:
        """Try a SELECT on the rows to come."""
        check_running(self.places.job)
        name = _PREFIX + secrets.token_hex(4)
        self.places.make()
        self._renew(name, os.O_CREAT)
        # The statement stands on lines of its own, so that places in it are those of the text.
        body = select.strip().rstrip(";")
        try:
            return self._added(f"CREATE QUERY {name} WITH (lease = {LEASE_SECONDS}) AS\n{body}", tries=True)
        except EddylineError as problem:
            raise _one_line_up(problem) from problem

    def _added(self, sql: str, tries: bool = False) -> dict[str, Any]:
        _check_size(sql, "eddyline query add takes longer texts")
        job = planned_job(self.control)
        if tries and sum(name.startswith(_PREFIX) for name in job.catalog.queries) >= _TRIED:
            raise UserError(
                "too many queries are tried at once",
                detail=f"at most {_TRIED}",
                hint="close a page, or add the query for good",
            )
        record = add_record(sql)
        change = apply_record(job, record)
        sources: dict[str, Stream | Table] = {**job.catalog.streams, **job.catalog.tables}
        warnings: list[str] = []
        for query in change.added:
            check(query, sources)
            warnings += notices(query, sources)
        return {"record": self.control.append(record), "queries": change.names, "warnings": warnings}

    def renew(self, name: str) -> dict[str, Any]:
        """A page still looks at a query that it tries."""
        if re.fullmatch(_PREFIX + "[0-9a-f]{8}", name) is None or not os.path.exists(self.places.lease(name)):
            raise UserError(f"{name[:40]} is no query that is tried")
        self._renew(name)
        self._forget_leases()
        return {"query": name, "seconds": LEASE_SECONDS}

    def _renew(self, name: str, how: int = 0) -> None:
        path = self.places.lease(name)
        os.close(os.open(path, os.O_WRONLY | os.O_CLOEXEC | how, 0o600))
        os.utime(path)

    def _forget_leases(self) -> None:
        """Files of leases that ended long ago go."""
        limit = time.time() - 100 * LEASE_SECONDS
        with os.scandir(self.places.leases) as entries:
            for entry in entries:
                if entry.stat().st_mtime < limit:
                    os.unlink(entry.path)

    def drop(self, names: Sequence[str]) -> dict[str, Any]:
        change = apply_record(planned_job(self.control), drop_record(names))
        return {"record": self.control.append(drop_record(change.names)), "queries": change.names}

    def change(self, query: str, given: Mapping[str, str]) -> dict[str, Any]:
        """Give a query that runs other triggers."""
        change = apply_record(planned_job(self.control), set_record(query, given))
        assert change.triggers is not None
        name, settings = change.triggers
        return {"record": self.control.append(set_record(name, settings)), "query": name, "settings": dict(settings)}

    def vocabulary(self) -> dict[str, Any]:
        """What texts for this job may hold."""
        return vocabulary(planned_job(self.control).catalog if self.control.exists else Catalog())

    def request(self, text: str) -> dict[str, Any]:
        """Ask templates; the answers of several requests come one after the other."""
        _check_size(text, "ask for less at once")
        texts = [request.text for request in parse_requests(text)]
        if len(texts) > _REQUESTS:
            raise UserError(
                "too many requests at once",
                detail=f"{len(texts):,}, and at most {_REQUESTS}",
                hint="eddyline request takes more",
            )
        bind_request_texts(texts, None, planned_job(self.control).catalog)
        check_running(self.places.job)
        token = uuid.uuid4().hex
        self.control.append(request_record(token, texts, None, time.time() + _PATIENCE))
        tables = wait_for(self.places.job, self.control.folder, token, _PATIENCE)
        return {
            "answers": [
                {
                    "request": " ".join(asked.split()),
                    "columns": table.column_names,
                    "rows": shown_rows(table.slice(0, _ROWS)),
                    "all": len(table),
                }
                for asked, table in zip(texts, tables, strict=True)
            ]
        }

    def outcome(self, number: int) -> dict[str, Any]:
        """What became of a record."""
        state = self.control.state()
        reason = state["refused"].get(str(number))
        if reason is not None:
            return {"state": "refused", "reason": reason}
        return {"state": "taken" if state["applied"] > number else "waiting", "reason": None}


def _check_size(text: str, hint: str) -> None:
    """Refuse a text that would keep this process busy for long: the job has its interpreter too."""
    if len(text) > _CHARACTERS:
        raise UserError(
            "the text is too long", detail=f"{len(text):,} characters, and at most {_CHARACTERS:,}", hint=hint
        )


def problem_document(problem: EddylineError) -> dict[str, Any]:
    place = problem.position
    return {
        "message": problem.message,
        "detail": problem.detail,
        "hint": problem.hint,
        "line": None if place is None else place.line,
        "column": None if place is None else place.column,
    }


def _one_line_up(problem: EddylineError) -> EddylineError:
    """The same error, with its place in the text that was given."""
    place = problem.position
    if place is None:
        return problem
    moved = type(place)(max(1, place.line - 1), place.column)
    return type(problem)(problem.message, detail=problem.detail, hint=problem.hint, position=moved)


__all__ = ["Console", "LEASE_SECONDS", "TAIL", "problem_document"]
