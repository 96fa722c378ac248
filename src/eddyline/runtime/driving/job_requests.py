"""Requests of other processes to the templates of a job, under either driver.

Answer   `take` reads the requests of a control record and hands them to the driver (`receive`). The process that sent
         them finds the answer, or the refusal, in the folder of answers.
State    The requests that wait, by token.
Limits   What is wrong with a request never ends the job.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from eddyline.errors import EddylineError, UserError
from eddyline.language.catalog import Catalog
from eddyline.language.requests.request_shapes import RequestShapes
from eddyline.language.requests.request_texts import bind_request_texts
from eddyline.model.template import Request
from eddyline.runtime.control.control import refusal
from eddyline.runtime.control.control_record import Record
from eddyline.runtime.control.request_answers import AnswerFolder


@dataclass(frozen=True)
class WaitingRequests:
    requests: Sequence[Request]
    #: Seconds of the wall clock after which no process waits for the answer; None: for ever.
    until: float | None

    @property
    def is_late(self) -> bool:
        return self.until is not None and time.time() > self.until


W = TypeVar("W", bound=WaitingRequests)


class JobRequests(ABC, Generic[W]):
    def __init__(self, folder: AnswerFolder) -> None:
        self.folder = folder
        self.waiting: dict[str, W] = {}
        self._shapes = RequestShapes()
        folder.forget_old()

    def take(self, record: Record, catalog: Catalog) -> list[dict[str, object]]:
        """Take the requests of a record, or refuse them; returns control records for shards."""
        token = record["token"]
        try:
            requests = bind_request_texts(record["requests"], record.get("as_of"), catalog, self._shapes)
            return self.receive(token, requests, record.get("until"))
        except Exception as problem:
            self.folder.refuse(token, as_refusal(problem))
            return []

    @abstractmethod
    def receive(self, token: str, requests: list[Request], until: float | None) -> list[dict[str, object]]:
        """Answer requests, or let them wait; returns control records for shards."""


def as_refusal(problem: Exception) -> EddylineError:
    if isinstance(problem, EddylineError):
        return problem
    return UserError("the request cannot be answered", detail=refusal(problem))
