"""Requests to the templates of a job on Spark: asked of all shards in one batch, merged here.

Answer   `ask` gives the control record that carries requests to the shards, and a `PendingAnswer` that gets the
         answers; `take` does the same for a record of another process, whose answer becomes a file. `after_batch`
         merges what the shards have sent.
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
from typing import Any

import pyarrow as pa

from eddyline.errors import EddylineError, UserError
from eddyline.language.catalog import Catalog
from eddyline.language.requests.request_texts import bind_request_texts
from eddyline.model.template import Request
from eddyline.runtime.control.answers import AnswerFolder
from eddyline.runtime.control.control import refusal
from eddyline.runtime.control.control_record import Record
from eddyline.runtime.engine.pipeline import Pipeline
from eddyline.runtime.engine.requests import merged_answers
from eddyline.runtime.spark.output.sinks import Delivered

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
class _Waiting:
    requests: Sequence[Request]
    give: Callable[[Answer], None]
    #: Seconds of the wall clock after which no process waits for the answer; None: for ever.
    until: float | None


class SparkRequests:
    def __init__(self, control: str) -> None:
        self.folder = AnswerFolder(control)
        self.folder.forget_old()
        self.waiting: dict[str, _Waiting] = {}

    def ask(
        self, requests: Sequence[Request], timeout: float | None = None, last: bool = False
    ) -> tuple[dict[str, object], PendingAnswer]:
        """Ask all shards; `last`: the run ends with it, and no instant ahead is waited for."""
        pending = PendingAnswer()
        until = None if timeout is None else time.time() + timeout
        return self._asked(uuid.uuid4().hex, requests, pending.give, until, last), pending

    def take(self, record: Record, catalog: Catalog) -> list[dict[str, object]]:
        """What the shards have to carry out of a record of another process."""
        token = record["token"]

        def give(answer: Answer) -> None:
            if isinstance(answer, EddylineError):
                self.folder.refuse(token, answer)
            else:
                self.folder.give(token, answer)

        try:
            requests = bind_request_texts(record["requests"], record.get("as_of"), catalog)
        except Exception as problem:  # whatever is wrong with it: a request never ends the job
            give(_as_refusal(problem))
            return []
        return [self._asked(token, requests, give, record.get("until"), last=False)]

    def _asked(
        self, token: str, requests: Sequence[Request], give: Callable[[Answer], None], until: float | None, last: bool
    ) -> dict[str, object]:
        self.waiting[token] = _Waiting(requests, give, until)
        said = {
            "requests": [request.text for request in requests],
            "instants": [request.as_of for request in requests],
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
        late = [token for token, one in self.waiting.items() if one.until is not None and time.time() > one.until]
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
            return _as_refusal(problem)


def _as_refusal(problem: Exception) -> EddylineError:
    return (
        problem
        if isinstance(problem, EddylineError)
        else UserError("the request cannot be answered", detail=refusal(problem))
    )
