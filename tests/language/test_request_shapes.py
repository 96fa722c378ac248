"""Requests that are read once and filled in afterwards equal those that are read each time."""

from __future__ import annotations

from random import Random

import pytest

from eddyline.errors import EddylineError
from eddyline.language.job import Job, bind_script
from eddyline.language.requests.request_shapes import MOST, RequestShapes
from eddyline.language.requests.request_texts import bind_request_texts
from eddyline.model.template import Request

STREAM = "CREATE STREAM s (k INT, t STRING, big BIGINT, d DOUBLE, day DATE, ts TIMESTAMP) WITH (time = 'ts');"
TEMPLATE = "CREATE TEMPLATE x AS SELECT {}, COUNT(*) AS n FROM s [RANGE 1 HOUR] GROUP BY {};"
KEYS = "k, t, big, d, day"
JOB = STREAM + TEMPLATE.format(KEYS, KEYS)


def bound(text: str, job: Job, shapes: RequestShapes | None = None) -> Request | str:
    try:
        return bind_request_texts([text], None, job.catalog, shapes)[0]
    except EddylineError as problem:
        return problem.message


def condition(rng: Random) -> str:
    name = rng.choice(("k", "K", "t", "big", "d", "day"))
    value = rng.choice(
        (
            "5",
            "7",
            "3000000000",
            "99999999999999999999",
            "-4",
            "1.5",
            "'a'",
            "'b'",
            "''",
            "'it''s'",
            "'k = 5 AND '",
            "5 + 1",
            "NULL",
        )
    )
    form = rng.choice(
        (
            "{} = {}",
            "{}={}",
            "{1} = {0}",
            "{} < {}",
            "{} IN ({})",
            "NOT {} = {}",
            "x.{} = {}",
            "{} = {} OR k = 8",
            "({} = {})",
        )
    )
    return form.format(name, value)


@pytest.mark.parametrize("seed", range(30))
def test_what_is_filled_in_equals_what_is_read(seed: int) -> None:
    rng, job, shapes = Random(seed), bind_script(JOB), RequestShapes()
    for _ in range(60):
        parts = " AND ".join(condition(rng) for _ in range(rng.choice((0, 1, 1, 2))))
        window = "[RANGE 5 MINUTES]" if rng.random() < 0.2 else ""
        groups = rng.choice(("", "GROUP BY ()", "GROUP BY k", "-- k = 5"))
        text = f"n FROM x {window} {'WHERE ' + parts if parts else ''} {groups}"
        if rng.random() < 0.2:
            text += rng.choice((" AS OF TIMESTAMP '2024-01-01 00:00:00'", ";", " ; REQUEST n FROM x"))
        assert bound(text, job, shapes) == bound(text, job), text


def test_another_template_of_the_same_name_is_bound_anew() -> None:
    job, shapes = bind_script(JOB), RequestShapes()
    first = bound("n FROM x WHERE k = 5 GROUP BY k", job, shapes)
    assert isinstance(first, Request)
    again = bound("n FROM x WHERE k = 6 GROUP BY k", job, shapes)
    assert isinstance(again, Request) and again.conditions[0].values == (6,)
    other = bind_script(STREAM + TEMPLATE.format("t, k", "t, k"))
    found = bound("n FROM x WHERE k = 6 GROUP BY k", other, shapes)
    assert isinstance(found, Request) and (found.group_by, found.conditions[0].key) == ((1,), 1)


def test_shapes_are_bounded() -> None:
    job, shapes = bind_script(JOB), RequestShapes()
    for number in range(2 * MOST):
        bound(f"n FROM x [RANGE {number % 3599 + 1} SECONDS] WHERE k = 5", job, shapes)
    assert len(shapes._known) == MOST
