"""Requests of other processes, in a shard.

Answer   `take` gets a request through a control record, in the same batch as all other shards. `answer` gives, at the
         end of the batch whose frontier has passed the instants, the parts of the answers that this shard has; the
         driver merges them.
State    Requests for later instants, as texts: part of the header of the shard's state. Their rows are
         kept.
Limits   A request for a later instant is refused where a bounded run ends. After a crash a request may
         be answered twice; the second answer replaces the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from eddyline.errors import EddylineError
from eddyline.model.template import Request
from eddyline.runtime.engine.epoch import Outcome
from eddyline.runtime.engine.pipeline import Pipeline
from eddyline.runtime.engine.requests import answer_parts, hold, is_later, release, templates


class ShardRequests:
    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        #: By token: `requests` as texts, their `instants`, and whether the run ends with them (`last`).
        self.waiting: dict[str, Any] = {}

    def take(self, record: Mapping[str, Any]) -> None:
        """Note requests, or that no process waits for them any more."""
        self.waiting |= record.get("ask", {})
        for token in record.get("unask", ()):
            if self.waiting.pop(token, None) is not None:
                release(self.pipeline, token)

    def restore(self, waiting: Mapping[str, Any]) -> None:
        self.waiting = dict(waiting)
        for token in self.waiting:
            hold(self.pipeline, token, self._bound(token))

    def answer(self, closing: bool, outcome: Outcome) -> None:
        """Give the parts of the answers that can be given now."""
        for token in list(self.waiting):
            try:
                requests = self._bound(token)
                if (
                    not closing
                    and not self.waiting[token]["last"]
                    and any(is_later(self.pipeline, request) for request in requests)
                ):
                    hold(self.pipeline, token, requests)
                    continue
                instants, parts = answer_parts(self.pipeline, requests)
                outcome.request_outcomes[token] = {"instants": instants}
                outcome.answers |= {f"{token} {template}": part for template, part in parts.items()}
            except EddylineError as problem:
                outcome.request_outcomes[token] = {
                    "message": problem.message,
                    "detail": problem.detail,
                    "hint": problem.hint,
                }
            release(self.pipeline, token)
            del self.waiting[token]

    def _bound(self, token: str) -> list[Request]:
        # Not at the top: a shard without requests does not import the language.
        from eddyline.language.catalog import Catalog
        from eddyline.language.requests.request_texts import bind_request_texts

        catalog = Catalog()
        for template in templates(self.pipeline):
            catalog.add(template)
        one = self.waiting[token]
        found = bind_request_texts(one["requests"], None, catalog)
        return [replace(request, as_of=instant) for request, instant in zip(found, one["instants"], strict=True)]
