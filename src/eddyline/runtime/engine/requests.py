"""Single requests, answered from a pipeline between two epochs.

Answer   `answers(pipeline, requests)` gives one table per request: its columns and `_ts`. `is_later` is true of an
         instant that has to wait;
         between `hold` and `release` the rows that it will need are kept. Pipelines that each have
         some of the rows give `answer_parts`, and `merged_answers` makes the same tables of them.
State    None.
Limits   The caller keeps epochs from running meanwhile. An instant at or after the frontier is not answered here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from eddyline.errors import UserError
from eddyline.model.datatypes import TIMESTAMP
from eddyline.model.template import Request, Template
from eddyline.operators.join.port import LONG_AGO
from eddyline.operators.template.answer import REQUEST
from eddyline.operators.template.probes import of_requests
from eddyline.runtime.engine.pipeline import Pipeline
from eddyline.runtime.engine.units.templates import TemplateKind, TemplateUnit


def is_later(pipeline: Pipeline, request: Request) -> bool:
    """Whether the frontier has not passed the instant of a request."""
    unit = _unit(pipeline, request.template)
    # A template that has been dropped gets no more rows.
    waits = request.as_of is not None and unit.query.stop is None
    return waits and (unit.frontier is None or (request.as_of or 0) >= unit.frontier)


def _unit(pipeline: Pipeline, name: str) -> TemplateUnit:
    unit = pipeline.kinds.one(TemplateKind).units.get(name)
    if unit is None:
        raise UserError(
            f"template {name} has been dropped",
            detail="a request waited for it",
            hint="create it again: CREATE TEMPLATE …",
        )
    return unit


def templates(pipeline: Pipeline) -> list[Template]:
    """The templates that take requests."""
    return [unit.template for unit in pipeline.kinds.one(TemplateKind).units.values()]


def hold(pipeline: Pipeline, token: str, requests: Sequence[Request]) -> None:
    """Keep the rows that requests for later instants will need, until `release`."""
    for request in requests:
        if is_later(pipeline, request):
            _unit(pipeline, request.template).wait(token, request.as_of)


def release(pipeline: Pipeline, token: str) -> None:
    for unit in pipeline.kinds.one(TemplateKind).units.values():
        unit.wait(token, None)


def answers(pipeline: Pipeline, requests: Sequence[Request]) -> list[pa.Table]:
    """The answers of requests, those to one template together.

    Raises:
        UserError: the rows for an instant are no longer kept, or the frontier has not passed it.
    """
    if len(requests) == 1 and requests[0].columns:
        return [_of_one(_unit(pipeline, requests[0].template), requests[0])]
    found: dict[int, pa.Table] = {}
    for name, numbers in _by_template(requests).items():
        tables = _of_template(_unit(pipeline, name), [requests[n] for n in numbers])
        found |= dict(zip(numbers, tables, strict=True))
    return [found[n] for n in range(len(requests))]


def _of_template(unit: TemplateUnit, requests: list[Request]) -> list[pa.Table]:
    instants = _instants(unit, requests)
    return _shaped(
        unit,
        requests,
        instants,
        unit.answer(of_requests(unit.template, requests, instants, unit.registered.tuning.most_probes)),
    )


def _of_one(unit: TemplateUnit, request: Request) -> pa.Table:
    instant = _instants(unit, [request])[0]
    probes = of_requests(unit.template, [request], [instant], unit.registered.tuning.most_probes)
    columns = unit.columns(probes, request.columns)
    return _table(unit, request, columns, len(columns[0]), instant)


def _shaped(
    unit: TemplateUnit, requests: Sequence[Request], instants: Sequence[int], whole: pa.Table
) -> list[pa.Table]:
    """One table per request, from the answers of all."""
    number = np.asarray(whole.column(REQUEST))
    tables = []
    for at, (request, instant) in enumerate(zip(requests, instants, strict=True)):
        low, high = np.searchsorted(number, [at, at + 1]).tolist()
        columns = unit.registered.answering.picked(whole.slice(low, high - low), request.columns)
        tables.append(_table(unit, request, columns, high - low, instant))
    return tables


def _instants(unit: TemplateUnit, requests: Sequence[Request]) -> list[int]:
    now = LONG_AGO if unit.frontier is None else unit.frontier - 1
    return [_instant(unit, request, now) for request in requests]


# -- answers in parts


def answer_parts(pipeline: Pipeline, requests: Sequence[Request]) -> tuple[list[int], dict[str, pa.Table]]:
    """The instants of requests, and per template what the rows of this pipeline add to its answers.

    Raises:
        UserError: as `answers`; the same in all pipelines, whose frontiers are the same.
    """
    instants = [0] * len(requests)
    parts: dict[str, pa.Table] = {}
    for name, numbers in _by_template(requests).items():
        unit = _unit(pipeline, name)
        mine = [requests[n] for n in numbers]
        found = _instants(unit, mine)
        for number, instant in zip(numbers, found, strict=True):
            instants[number] = instant
        probes = of_requests(unit.template, mine, found, unit.registered.tuning.most_probes)
        here = unit.answered_here(probes)
        part = unit.parts(probes.some(here))
        if part.num_rows:
            parts[name] = part.set_column(0, REQUEST, pa.array(here[np.asarray(part.column(REQUEST))]))
    return instants, parts


def merged_answers(
    pipeline: Pipeline, requests: Sequence[Request], instants: Sequence[int], parts: Mapping[str, Sequence[pa.Table]]
) -> list[pa.Table]:
    """The answers of requests from the parts of all pipelines; this one knows the templates and needs no rows."""
    found: dict[int, pa.Table] = {}
    for name, numbers in _by_template(requests).items():
        unit = _unit(pipeline, name)
        whole = unit.registered.answering.merged(parts.get(name, ()), pipeline.issues)
        tables = _shaped(unit, [requests[n] for n in numbers], [instants[n] for n in numbers], whole)
        found |= dict(zip(numbers, tables, strict=True))
    return [found[n] for n in range(len(requests))]


def _by_template(requests: Sequence[Request]) -> dict[str, list[int]]:
    """The numbers of requests by template."""
    found: dict[str, list[int]] = {}
    for number, request in enumerate(requests):
        found.setdefault(request.template, []).append(number)
    return found


# -- one request


def _instant(unit: TemplateUnit, request: Request, now: int) -> int:
    if request.as_of is None:
        return now
    if request.as_of > now:
        raise UserError(
            f"AS OF {_text(request.as_of)} lies ahead",
            detail=f"template {unit.template.name} has been read up to {_text(now)}"
            if now != LONG_AGO
            else "no row has been read yet",
            hint="the streams have ended: leave AS OF out to ask for their end"
            if unit.kind.pipeline.over
            else "ask again later, or in a session that runs in the background: there the request waits",
        )
    oldest = unit.oldest(request.window)
    if oldest is not None and request.as_of < oldest:
        raise UserError(
            f"AS OF {_text(request.as_of)} is too old",
            detail=f"template {unit.template.name} keeps rows for instants from {_text(oldest)} on",
            hint="create the template WITH (history = '…') to ask for earlier instants, or ask for a shorter window",
        )
    return request.as_of


def _text(instant: int) -> str:
    return str(np.datetime64(instant, "us")).replace("T", " ")


def _table(
    unit: TemplateUnit, request: Request, columns: Sequence[pa.Array | pa.ChunkedArray], rows: int, instant: int
) -> pa.Table:
    """The answer of a request: its columns and `_ts`, which is NULL where nothing has been read yet."""
    if instant == LONG_AGO:
        stamps = pa.nulls(rows, TIMESTAMP.arrow)
    else:
        stamps = pa.Array.from_buffers(TIMESTAMP.arrow, rows, [None, pa.py_buffer(np.full(rows, instant, np.int64))])
    return pa.Table.from_arrays([*columns, stamps], schema=request.schema(unit.template))
