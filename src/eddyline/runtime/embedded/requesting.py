"""Requests of the session itself to the templates of its job in this process.

Answer   `answered` gives the answers after everything that was pushed. A request for an instant ahead waits where a
         thread runs the job.
Limits   Never from a function that is called with results: an epoch is under way then.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence

import pyarrow as pa

from eddyline.model.clock import Clock
from eddyline.model.template import Request
from eddyline.runtime.control.answers import unanswered
from eddyline.runtime.embedded.driver import EmbeddedDriver
from eddyline.runtime.engine.requests import answers, hold, is_ahead, release

#: Seconds between two looks of a request that waits for the frontier.
_LOOK = 0.005


def answered(
    driver: EmbeddedDriver,
    requests: Sequence[Request],
    timeout: float | None,
    in_background: bool,
    has_waiting: Callable[[], bool],
    clock: Clock,
) -> list[pa.Table]:
    """
    Args:
        in_background: a thread runs the job.
        has_waiting: whether rows wait that were pushed before.
    """
    limit = None if timeout is None else clock.now() + timeout
    token = uuid.uuid4().hex if in_background else ""
    if in_background:
        with driver.changing():
            hold(driver.pipeline, token, requests)
    try:
        while in_background and (has_waiting() or _is_ahead(driver, requests)):
            driver.raise_failure()
            if limit is not None and clock.now() > limit:
                raise unanswered(timeout)
            time.sleep(_LOOK)
        with driver.changing():
            return answers(driver.pipeline, requests)
    finally:
        if in_background:
            with driver.changing():
                release(driver.pipeline, token)


def _is_ahead(driver: EmbeddedDriver, requests: Sequence[Request]) -> bool:
    """Whether the frontier has to pass an instant first."""
    with driver.lock:
        return any(is_ahead(driver.pipeline, request) for request in requests)
