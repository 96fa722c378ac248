"""Changes and requests that pages send to a job: queries to try, to add, to change and to drop, requests to templates.

Answer   `JobConsole` checks a change and writes it as a control record, as `eddyline query` and `eddyline request` do. An
         error has the message, detail, hint, line and column that the engine gives. `outcome` says whether the job has
         carried a record out or refused it.
State    Control records, and one file per lease.
Limits   A tried query has a lease of 30 seconds, which its page renews; at most 20 queries are tried at once. A text has
         at most 100,000 characters and 100 requests. Trying a query and requests need a job that runs.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from eddyline.dashboard.vocabulary import vocabulary
from eddyline.errors import EddylineError, UserError
from eddyline.language.catalog import Catalog
from eddyline.language.requests.request_texts import bind_request_texts, parse_requests
from eddyline.runtime.control.control import ControlFolder, planned_job
from eddyline.runtime.control.request_answers import check_running, request_answers
from eddyline.runtime.control.sending import add_queries, drop_queries, set_triggers
from eddyline.runtime.reporting.places import ReportPlaces
from eddyline.runtime.reporting.samples import TAIL, shown_rows

#: Seconds after which the job drops a tried query that no page has renewed.
LEASE_SECONDS = 30
_PREFIX = "try_"
#: Seconds that a page waits for the answers to requests, and rows of an answer that it gets.
_PATIENCE, _ROWS = 15.0, 1_000
#: Bounds for pages: characters of a text, requests in it, queries that are tried at once.
_CHARACTERS, _REQUESTS, _TRIED = 100_000, 100, 20


class JobConsole:
    def __init__(self, folder: str) -> None:
        self.control = ControlFolder(folder)
        self.places = ReportPlaces(folder)

    def attempt(self, select: str) -> dict[str, Any]:
        """Add a query with a lease: it reads the rows that come from now on."""
        check_running(self.places.job)
        name = _PREFIX + secrets.token_hex(4)
        self.places.make()
        self._renew(name, os.O_CREAT)
        # One line before the SELECT: a column of an error is that of the text, its line one too large.
        body = select.strip().rstrip(";")
        try:
            return self.add(f"CREATE QUERY {name} WITH (lease = {LEASE_SECONDS}) AS\n{body}", most_tried=_TRIED)
        except EddylineError as problem:
            raise _one_line_up(problem) from problem

    def add(self, sql: str, most_tried: int | None = None) -> dict[str, Any]:
        """Add the queries of some statements; refuse them if `most_tried` queries are tried already."""
        _check_size(sql, "eddyline query add takes longer texts")
        job = planned_job(self.control)
        if most_tried is not None and sum(name.startswith(_PREFIX) for name in job.catalog.queries) >= most_tried:
            hint = "close a page, or add the query for good"
            raise UserError("too many queries are tried at once", detail=f"at most {most_tried}", hint=hint)
        sent = add_queries(self.control, job, sql)
        return {"record": sent.record, "queries": sent.change.names, "warnings": list(sent.warnings)}

    def renew(self, name: str) -> dict[str, Any]:
        """Renew the lease of a tried query, for the page that shows it."""
        if re.fullmatch(_PREFIX + "[0-9a-f]{8}", name) is None or not os.path.exists(self.places.lease(name)):
            raise UserError(f"{name[:40]} is not a tried query")
        self._renew(name)
        self._forget_leases()
        return {"query": name, "seconds": LEASE_SECONDS}

    def _renew(self, name: str, how: int = 0) -> None:
        path = self.places.lease(name)
        os.close(os.open(path, os.O_WRONLY | os.O_CLOEXEC | how, 0o600))
        os.utime(path)

    def _forget_leases(self) -> None:
        """Remove the files of leases that ended long ago."""
        limit = time.time() - 100 * LEASE_SECONDS
        with os.scandir(self.places.leases) as entries:
            for entry in entries:
                if entry.stat().st_mtime < limit:
                    os.unlink(entry.path)

    def drop(self, names: Sequence[str]) -> dict[str, Any]:
        sent = drop_queries(self.control, planned_job(self.control), names)
        return {"record": sent.record, "queries": sent.change.names}

    def change(self, query: str, given: Mapping[str, str]) -> dict[str, Any]:
        """Give a query that runs other triggers."""
        sent = set_triggers(self.control, planned_job(self.control), query, given)
        assert sent.change.triggers is not None
        name, settings = sent.change.triggers
        return {"record": sent.record, "query": name, "settings": dict(settings)}

    def vocabulary(self) -> dict[str, Any]:
        """The words that texts for this job may have."""
        return vocabulary(planned_job(self.control).catalog if self.control.exists else Catalog())

    def request(self, text: str) -> dict[str, Any]:
        """The answers of the job to requests, in their order."""
        _check_size(text, "send fewer requests at once")
        texts = [request.text for request in parse_requests(text)]
        if len(texts) > _REQUESTS:
            detail = f"{len(texts):,}, and at most {_REQUESTS}"
            raise UserError("too many requests at once", detail=detail, hint="eddyline request takes more")
        bind_request_texts(texts, None, planned_job(self.control).catalog)
        tables = request_answers(self.control, texts, None, _PATIENCE)
        return {"answers": [_shown_answer(request, table) for request, table in zip(texts, tables, strict=True)]}

    def outcome(self, number: int) -> dict[str, Any]:
        """Whether the job has carried a record out, has refused it, or has not read it yet."""
        state = self.control.state()
        reason = state["refused"].get(str(number))
        if reason is not None:
            return {"state": "refused", "reason": reason}
        return {"state": "taken" if state["applied"] > number else "waiting", "reason": None}


def _check_size(text: str, hint: str) -> None:
    """Refuse a long text: parsing it would keep this process busy, in which the job may run."""
    if len(text) > _CHARACTERS:
        detail = f"{len(text):,} characters, and at most {_CHARACTERS:,}"
        raise UserError("the text is too long", detail=detail, hint=hint)


def _shown_answer(request: str, table: pa.Table) -> dict[str, Any]:
    rows = shown_rows(table.slice(0, _ROWS))
    return {"request": " ".join(request.split()), "columns": table.column_names, "rows": rows, "all": len(table)}


def problem_document(problem: EddylineError) -> dict[str, Any]:
    texts = {"message": problem.message, "detail": problem.detail, "hint": problem.hint}
    place = problem.position
    return texts | {"line": place and place.line, "column": place and place.column}


def _one_line_up(problem: EddylineError) -> EddylineError:
    """The same error, with its line in the text of the user."""
    place = problem.position
    if place is None:
        return problem
    moved = type(place)(max(1, place.line - 1), place.column)
    return type(problem)(problem.message, detail=problem.detail, hint=problem.hint, position=moved)


__all__ = ["JobConsole", "LEASE_SECONDS", "TAIL", "problem_document"]
