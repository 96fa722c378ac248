"""Requests to the templates of a job on shards: all shards answer in one batch, and their answers are merged here.

Answer   `record` gives the control record that carries requests to the shards, and a `PendingAnswer` that gets the
         answers; `take` (`JobRequests`) does the same for a record of another process, whose answer becomes a file.
         `after_batch` merges what the shards have sent.
State    The requests that wait, by token. They end with the driver: the shards may still answer, and the answer is
         passed over.
Limits   All shards answer at the same instant, for their frontiers are the same.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from eddyline.errors import EddylineError, UserError
from eddyline.model.template import Request
from eddyline.runtime.control.request_answers import AnswerFolder
from eddyline.runtime.driving.job_requests import JobRequests, WaitingRequests, as_refusal
from eddyline.runtime.engine.pipeline import Pipeline
from eddyline.runtime.engine.requests import merged_answers
from eddyline.runtime.sharded.output.delivery import Delivered

Answer = list[pa.Table] | EddylineError


class PendingAnswer:
    """An answer that a thread of this process waits for."""

    def __init__(self) -> None:
        self._there = threading.Event()
        self._answer: Answer = []

    def give(self, answer: Answer) -> None:
        self._answer = answer
        self._there.set()

    def wait(self, seconds: float) -> bool:
        return self._there.wait(seconds)

    @property
    def tables(self) -> list[pa.Table]:
        """The answers, once they are there.

        Raises:
            EddylineError: the requests were refused.
        """
        if not self._there.is_set():
            raise UserError(
                "the requests of the job were not answered", hint="the run ended before its shards could answer"
            )
        if isinstance(self._answer, EddylineError):
            raise self._answer
        return self._answer


@dataclass(frozen=True)
class _Waiting(WaitingRequests):
    give: Callable[[Answer], None]


class ShardedRequests(JobRequests[_Waiting]):
    def __init__(self, control: str) -> None:
        super().__init__(AnswerFolder(control))

    def record(
        self, requests: Sequence[Request], timeout: float | None = None, last: bool = False
    ) -> tuple[dict[str, object], PendingAnswer]:
        """The control record that has all shards answer, and the answer to wait for.

        Args:
            requests: To the job's templates.
            timeout: Seconds after which the shards forget the requests; None: never.
            last: The run ends with them: a request for a later instant is refused.
        """
        pending = PendingAnswer()
        until = None if timeout is None else time.time() + timeout
        return self._waiting_for(uuid.uuid4().hex, _Waiting(requests, until, pending.give), last), pending

    def receive(self, token: str, requests: list[Request], until: float | None) -> list[dict[str, object]]:
        return [self._waiting_for(token, _Waiting(requests, until, partial(self._give, token)), last=False)]

    def _give(self, token: str, answer: Answer) -> None:
        """Write the answer for another process."""
        if isinstance(answer, EddylineError):
            self.folder.refuse(token, answer)
        else:
            self.folder.give(token, answer)

    def _waiting_for(self, token: str, waiting: _Waiting, last: bool) -> dict[str, object]:
        """Note that requests wait, and give the control record that carries them to the shards."""
        self.waiting[token] = waiting
        said = {
            "requests": [request.text for request in waiting.requests],
            "instants": [request.as_of for request in waiting.requests],
            "last": last,
        }
        return {"ask": {token: said}}

    def after_batch(self, delivered: Delivered, model: Pipeline) -> list[dict[str, object]]:
        """Give the answers that a batch brought; returns what the shards have to know of requests that are too late.

        Args:
            delivered: The parts of all shards.
            model: The pipeline that knows the templates.
        """
        answered: Mapping[str, Any] = min(delivered.notes.items())[1].get("asked", {}) if delivered.notes else {}
        for token, said in answered.items():
            waiting = self.waiting.pop(token, None)
            if waiting is not None:
                waiting.give(self._merged(token, waiting.requests, said, delivered, model))
        late = [token for token, one in self.waiting.items() if one.is_late]
        for token in late:
            del self.waiting[token]
        return [{"unask": late}] if late else []

    def _merged(
        self, token: str, requests: Sequence[Request], said: Mapping[str, Any], delivered: Delivered, model: Pipeline
    ) -> Answer:
        if "message" in said:
            return UserError(said["message"], detail=said["detail"], hint=said["hint"])
        prefix = f"{token} "
        parts = {
            name.removeprefix(prefix): found for name, found in delivered.answers.items() if name.startswith(prefix)
        }
        try:
            return merged_answers(model, requests, said["instants"], parts)
        except Exception as problem:  # as in `take`
            return as_refusal(problem)
