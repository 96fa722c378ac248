"""Requests to an embedded job: those of other processes, and those of its session.

Answer   `EmbeddedRequests` answers requests of other processes between two epochs: at once, or when the frontier has
         passed their instants. `answered` gives a session its answers after everything that was pushed.
State    Requests that wait. Each keeps the rows of its instant from being purged.
Limits   Waiting requests of other processes end with the run. A function that is called with results cannot request:
         an epoch is under way then.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from eddyline.connectors.results.request_files import write_requests
from eddyline.errors import EddylineError
from eddyline.model.clock import Clock
from eddyline.model.template import Request
from eddyline.runtime.control.request_answers import AnswerFolder, request_timeout
from eddyline.runtime.driving.job_requests import JobRequests, WaitingRequests, as_refusal
from eddyline.runtime.engine.pipeline import Pipeline
from eddyline.runtime.engine.requests import answers, hold, is_later, release

if TYPE_CHECKING:
    from eddyline.runtime.embedded.driver import EmbeddedDriver

#: A session's request that waits for the frontier is tried again after this number of seconds.
_PAUSE = 0.005


class EmbeddedRequests(JobRequests[WaitingRequests]):
    def __init__(self, pipeline: Pipeline, folder: AnswerFolder) -> None:
        super().__init__(folder)
        self.pipeline = pipeline

    def receive(self, token: str, requests: list[Request], until: float | None) -> list[dict[str, object]]:
        if _must_wait(self.pipeline, requests):
            self.waiting[token] = WaitingRequests(requests, until)
            hold(self.pipeline, token, requests)
        else:
            self._answer(token, requests)
        return []

    def answer_ready(self) -> None:
        """Answer what waits no longer."""
        for token, one in list(self.waiting.items()):
            late = one.is_late
            if late or not _must_wait(self.pipeline, one.requests):
                del self.waiting[token]
                try:
                    if not late:
                        self._answer(token, one.requests)
                except Exception as problem:  # as in `take`
                    self.folder.refuse(token, as_refusal(problem))
                finally:
                    release(self.pipeline, token)

    def end(self) -> None:
        """The run ends: no later instant will come."""
        for token, one in self.waiting.items():
            release(self.pipeline, token)
            try:
                self._answer(token, one.requests)
            except EddylineError as problem:
                self.folder.refuse(token, problem)
        self.waiting = {}

    def _answer(self, token: str, requests: Sequence[Request]) -> None:
        self.folder.give(token, answers(self.pipeline, requests))


def answered(
    driver: EmbeddedDriver,
    requests: Sequence[Request],
    timeout: float | None,
    in_background: bool,
    has_waiting: Callable[[], bool],
    clock: Clock,
) -> list[pa.Table]:
    """The answers to requests of the session; one for a later instant waits where a thread runs the job.

    Args:
        in_background: a thread runs the job.
        has_waiting: whether rows wait that were pushed before.
    """
    if not in_background:
        with driver.changing():
            return answers(driver.pipeline, requests)
    limit = None if timeout is None else clock.now() + timeout
    token = uuid.uuid4().hex
    with driver.changing():
        hold(driver.pipeline, token, requests)
    try:
        while has_waiting() or _is_later(driver, requests):
            driver.raise_failure()
            if limit is not None and clock.now() > limit:
                raise request_timeout(timeout)
            time.sleep(_PAUSE)
        with driver.changing():
            return answers(driver.pipeline, requests)
    finally:
        with driver.changing():
            release(driver.pipeline, token)


def answer_statements(pipeline: Pipeline, requests: Sequence[Request], out: str | None) -> list[pa.Table]:
    """The answers of the REQUEST statements of a job, and their files below the folder of results if there is one."""
    found = answers(pipeline, requests)
    if out is not None:
        write_requests(out, found)
    return found


def _is_later(driver: EmbeddedDriver, requests: Sequence[Request]) -> bool:
    """Whether the frontier has to pass an instant first."""
    with driver.lock:
        return _must_wait(driver.pipeline, requests)


def _must_wait(pipeline: Pipeline, requests: Sequence[Request]) -> bool:
    return any(is_later(pipeline, request) for request in requests)
