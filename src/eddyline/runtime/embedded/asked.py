"""Requests from other processes to an embedded job: answered between two epochs.

Answer   `take` answers the requests of a control record, or lets them wait until the frontier has passed their
         instants; `look` answers those that wait no longer.
State    Requests that wait. Each holds the rows of its instant back from purging.
Limits   Called between two epochs. Waiting requests end with the run: the processes that sent them see it stop.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from eddyline.errors import EddylineError, UserError
from eddyline.language import Job
from eddyline.language.requests.request_shapes import RequestShapes
from eddyline.language.requests.request_texts import bind_request_texts
from eddyline.model.template import Request
from eddyline.runtime.control.answers import AnswerFolder
from eddyline.runtime.control.control import refusal
from eddyline.runtime.control.control_record import Record
from eddyline.runtime.engine.pipeline import Pipeline
from eddyline.runtime.engine.requests import answers, hold, is_ahead, release


@dataclass(slots=True)
class _Waiting:
    requests: list[Request]
    #: Seconds of the wall clock after which no process waits for the answer; None: for ever.
    until: float | None


class EmbeddedRequests:
    def __init__(self, job: Job, pipeline: Pipeline, folder: AnswerFolder) -> None:
        self.job = job
        self.pipeline = pipeline
        self.folder = folder
        #: By token.
        self.waiting: dict[str, _Waiting] = {}
        self._shapes = RequestShapes()
        folder.forget_old()

    def take(self, record: Record) -> None:
        """Answer the requests of a record, refuse them, or let them wait."""
        token = record["token"]
        try:
            found = bind_request_texts(record["requests"], record.get("as_of"), self.job.catalog, self._shapes)
            if self._must_wait(found):
                self.waiting[token] = _Waiting(found, record.get("until"))
                hold(self.pipeline, token, found)
            else:
                self._answer(token, found)
        except Exception as problem:  # whatever is wrong with it: a request never ends the job
            self.folder.refuse(token, _as_refusal(problem))

    def look(self) -> None:
        """Answer what waits no longer."""
        for token, one in list(self.waiting.items()):
            late = one.until is not None and time.time() > one.until
            if late or not self._must_wait(one.requests):
                del self.waiting[token]
                try:
                    if not late:
                        self._answer(token, one.requests)
                except Exception as problem:  # as in `take`
                    self.folder.refuse(token, _as_refusal(problem))
                finally:
                    release(self.pipeline, token)

    def end(self) -> None:
        """The run ends: no instant ahead will come."""
        for token, one in self.waiting.items():
            release(self.pipeline, token)
            try:
                self._answer(token, one.requests)
            except EddylineError as problem:
                self.folder.refuse(token, problem)
        self.waiting = {}

    def _answer(self, token: str, requests: Sequence[Request]) -> None:
        self.folder.give(token, answers(self.pipeline, requests))

    def _must_wait(self, requests: Sequence[Request]) -> bool:
        return any(is_ahead(self.pipeline, request) for request in requests)


def _as_refusal(problem: Exception) -> EddylineError:
    return (
        problem
        if isinstance(problem, EddylineError)
        else UserError("the request cannot be answered", detail=refusal(problem))
    )
