"""Requests answered from a stream's store, against the oracle: any template, any access path, rows that come and
leave."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from random import Random
from types import FrameType

import numpy as np
import pyarrow as pa
import pytest

from eddyline import Session
from eddyline.language.job import Job, bind_script
from eddyline.operators.expressions.evaluate import Issues
from eddyline.operators.join.port import LONG_AGO
from eddyline.operators.stream.intake import Intake
from eddyline.operators.stream.stream import StreamState
from eddyline.operators.stream.waiting import WaitingRows
from eddyline.operators.template.blocks import Fields
from eddyline.operators.template.precomputed import Precomputed
from eddyline.operators.template.probes import Requests, of_requests
from eddyline.operators.template.registered import RegisteredTemplate
from eddyline.plan.index_choice.templates import TemplatePrice
from eddyline.plan.prepare import prepare
from eddyline.plan.tree.budget import SHIPPED_INDEX
from eddyline.runtime.engine.units.templates import TemplateKind
from eddyline.settings import Settings
from eddyline.tuning import TemplateTuning, Tuning
from tests.oracle.intake import Row
from tests.oracle.templates import answer
from tests.property.compare import canonical, plain_rows
from tests.property.specs import arrow_table
from tests.property.templates import TemplateCase, random_ask, random_template
from tests.seeds import cases, first_seed, is_whole

PLAIN = TemplateTuning()


class Engine:
    """One stream and one template, without a pipeline: rows come in time order."""

    def __init__(self, job: Job, case: TemplateCase, tuning: TemplateTuning) -> None:
        template = job.catalog.templates["t"]
        stream = job.catalog.streams["s0"]
        lowered = prepare(template.query)
        keys = tuple(o for o in lowered.outputs if o.expression in lowered.group_by)
        aggregates = tuple(o for o in lowered.outputs if o.expression not in lowered.group_by)
        self.template, self.case = template, case
        self.stream = StreamState("s0", {c.name: c.type for c in stream.schema.columns})
        self.intake = Intake(stream)
        self.waiting = WaitingRows(stream)
        price = TemplatePrice(len(keys), template.bits, SHIPPED_INDEX, tuning)
        self.registered = RegisteredTemplate(
            template, keys, aggregates, lowered.filters[0], self.stream, LONG_AGO, price, Issues(), tuning=tuning
        )
        self.rows: list[Row] = []
        self.frontier: int | None = None
        self.seen = 0

    def step(self, rows: tuple[tuple[object, ...], ...]) -> None:
        taken = self.intake.take(arrow_table(self.case.stream.columns, rows))
        self.waiting.receive(taken.chunk, taken.census, self.frontier)
        self.frontier = self.intake.horizon
        if self.frontier is None or (released := self.waiting.release(self.frontier)) is None:
            return
        numbers = np.arange(self.seen, self.seen + len(released.ts))
        self.seen += len(numbers)
        reader = self.stream.reader("s0")
        self.stream.admit(released.table, released.ts, numbers, None)
        self.stream.take(reader, int(released.ts[-1]), numbers, numbers, numbers)
        for values in plain_rows([released.table]):
            self.rows.append(Row("s0", values, values["ts"], len(self.rows), len(self.rows), 0))  # type: ignore[arg-type]
        self.stream.purge(reader, self.frontier, self.seen)
        self.registered.after_epoch()


def answered(registered: RegisteredTemplate, requests: Requests, rng: Random) -> pa.Table:
    """The answers; sometimes merged from those of two holders, each with some of the rows."""
    whole = registered.answer(requests)
    if rng.random() < 0.6:
        return whole
    request, ids = registered._found(requests)
    mine = np.array([rng.random() < 0.5 for _ in range(int(ids.max(initial=0)) + 1)], np.bool_)[ids]
    answering = registered.answering
    parts = [answering.parts(requests, request[m], ids[m], Issues()) for m in (mine, ~mine)]
    return answering.merged(parts, Issues())


def check(
    case: TemplateCase, rng: Random, asks: int, tuning: TemplateTuning = PLAIN, paths: dict[str, int] | None = None
) -> int:
    requests = [random_ask(rng, case) for _ in range(asks)]
    job = bind_script(";\n".join([*case.statements(), *(f"REQUEST {text}" for _, text in requests)]) + ";")
    engine = Engine(job, case, tuning)
    compared = 0
    for rows in case.epochs:
        engine.step(rows)
        if engine.frontier is None:
            continue
        engine.registered.batched = rng.random() < 0.6
        if (
            rng.random() < 0.2
            and engine.registered.index is not None
            and isinstance(engine.registered.index.addressing, Fields)
        ):
            engine.registered.index.reconfigure(Fields(tuple(rng.randint(0, 3) for _ in engine.template.keys)))
        oldest = engine.frontier - 1 - case.history
        instants = (
            [rng.randint(oldest, engine.frontier - 1) for _ in requests]
            if rng.random() < 0.6
            else [engine.frontier - 1] * asks
        )
        found = answered(
            engine.registered,
            of_requests(engine.template, job.requests, instants, engine.registered.tuning.most_probes),
            rng,
        )
        for number, ((ask, text), instant) in enumerate(zip(requests, instants, strict=True)):
            mine = plain_rows([found.filter(pa.compute.equal(found.column("_request"), number))])
            given = sorted(canonical([row[c] for c in ask.columns]) for row in mine)
            right = sorted(canonical(row) for row in answer(case.template, ask, engine.rows, instant))
            assert given == right, f"{text} at {instant}\n{case.statements()}\n{case!r}"
            compared += 1
    if paths is not None:
        paths.update(engine.registered.paths)
    return compared


@pytest.mark.parametrize("seed", range(first_seed(), first_seed() + cases(60)))
def test_any_template_any_request(seed: int) -> None:
    rng = Random(seed)
    for _ in range(5):
        check(random_template(rng), rng, rng.choice((1, 2, 6)))


@pytest.mark.parametrize("seed", range(first_seed(), first_seed() + cases(12)))
def test_blocks_are_clustered_and_rebuilt(seed: int) -> None:
    """Blocks of 16 rows: most rows of a window lie in full blocks, and the newest in a block that is built again as it
    grows."""
    rng = Random(seed)
    tuning = TemplateTuning(block_rows=16, build=rng.choice((1e-10, 1e-9, 40e-9)))
    assert sum(check(random_template(rng, 150), rng, 4, tuning) for _ in range(3))


def test_groups_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups are kept, whatever that costs, for every template whose aggregates can be added up."""
    plain = Precomputed.pays

    def always(made: Precomputed, requests: int, low: int, high: int, otherwise: float, groups: float) -> bool:
        return plain(made, requests, low, high, 1e9, 0.0)

    monkeypatch.setattr(Precomputed, "pays", always)
    kept = 0
    for seed in range(first_seed(), first_seed() + cases(100)):
        rng = Random(seed)
        case = random_template(rng, 150)
        options = re.sub(r"index = '[^']*'", "index = 'auto'", case.options)
        paths: dict[str, int] = {}
        check(
            replace(case, options=options),
            rng,
            1,
            TemplateTuning(block_rows=rng.choice((16, 64)), most_groups=1e9),
            paths,
        )
        kept += paths.get("groups", 0)
    assert kept > 20 or not is_whole()


def test_requests_for_the_whole_window_are_answered_from_groups() -> None:
    session = Session(Settings(tuning=Tuning(templates=TemplateTuning(build=1e-12))))
    session.execute(
        "CREATE STREAM s0 (k INT, t STRING, v INT, ts TIMESTAMP) WITH (time = 'ts');"
        "CREATE TEMPLATE x AS SELECT k, t, COUNT(*) AS n, SUM(v) AS total, AVG(v) AS mean FROM s0 [RANGE 999 SECONDS] GROUP BY k, t;"
    )
    rng = Random(5)
    rows: list[tuple[int | None, str, int | None, int]] = []
    for epoch in range(12):
        came = [
            (rng.choice((None, 1, 2)), rng.choice("ab"), rng.choice((None, 5, -7)), (epoch * 300 + number) * 1_000_000)
            for number in range(300)
        ]
        rows += came
        session.push("s0", came)
        session.step()
        found = session.request("t, n, total, mean FROM x WHERE k = 2 GROUP BY t")
        now = rows[-1][-1] - 1
        for row in found.to_pylist():
            mine = [v for k, t, v, ts in rows if k == 2 and t == row["t"] and now - 999_000_000 <= ts <= now]
            there = [v for v in mine if v is not None]
            assert (row["n"], row["total"], row["mean"]) == (len(mine), sum(there), sum(there) / len(there))
    assert session.pipeline.kinds.one(TemplateKind).unit("x").registered.paths["groups"] > 5


def test_a_template_that_is_not_asked_costs_two_calls_per_epoch() -> None:
    """It keeps nothing beside the rows of its stream, and looks at none of them."""
    session = Session()
    session.execute(
        "CREATE STREAM s0 (k INT, v INT, ts TIMESTAMP) WITH (time = 'ts');"
        "CREATE TEMPLATE t AS SELECT k, SUM(v) AS total FROM s0 [RANGE 100 SECONDS] GROUP BY k;"
    )
    registered = session.pipeline.kinds.one(TemplateKind).unit("t").registered
    called: list[str] = []
    before = registered.nbytes

    def note(frame: FrameType, event: str, argument: object) -> None:
        of = str(frame.f_globals.get("__name__"))
        if event == "call" and of.startswith("eddyline.operators.template.") and "Port" not in frame.f_code.co_qualname:
            called.append(frame.f_code.co_qualname)

    for epoch in range(12):
        session.push("s0", [(n % 7, n, (epoch * 50 + n) * 1_000_000) for n in range(50)])
        session.step()
        called.clear()
        sys.setprofile(note)
        session.push("s0", [(1, 1, (epoch * 50 + 49) * 1_000_000)])
        session.step()
        sys.setprofile(None)
        in_epoch = [name for name in called if ".nbytes" not in name]
        assert in_epoch == ["RegisteredTemplate.after_epoch", "Adjustment.after_epoch"], called
    assert registered.nbytes == before and registered.visits.rows == 0 and registered.stream.store.live < 300


def test_values_are_counted_again_when_a_quarter_of_the_rows_is_new() -> None:
    text = (
        "CREATE STREAM s0 (k INT, ts TIMESTAMP) WITH (time = 'ts');"
        "CREATE TEMPLATE t AS SELECT k, COUNT(*) AS n FROM s0 [RANGE 1 DAY] GROUP BY k; REQUEST n FROM t WHERE k = 1;"
    )
    session = Session()
    session.execute(text)
    registered = session.pipeline.kinds.one(TemplateKind).unit("t").registered
    for number in range(400):
        session.push("s0", [(number % 7, number * 1_000_000)])
        session.step()
        session.request("n FROM t WHERE k = 1 GROUP BY ()")
    # Twice as many rows are three quarters more: about three counts per doubling.
    assert 10 <= registered.adjustment.counted <= 40
    assert registered.adjustment.values(registered.rows) == [7]


@pytest.mark.parametrize(("values", "codes"), [(40, 8192), (100_000, 8192), (100_000, 100)])
def test_ranges_use_the_index(values: int, codes: int) -> None:
    """Values are numbered in order; very many are cut at quantiles once a range has been asked for."""
    rng = Random(values)
    session = Session(Settings(tuning=Tuning(templates=TemplateTuning(block_rows=1024, most_codes=codes))))
    session.execute(
        "CREATE STREAM s0 (k INT, j INT, ts TIMESTAMP) WITH (time = 'ts');"
        "CREATE TEMPLATE t WITH (index = 'imp(6, 2)') AS SELECT k, j, COUNT(*) AS n FROM s0 [RANGE 1 DAY] GROUP BY k, j;"
    )
    rows = [(rng.randrange(values), rng.randrange(9), number * 1_000_000) for number in range(8 * 1024 + 100)]
    session.push("s0", rows)
    registered = session.pipeline.kinds.one(TemplateKind).unit("t").registered
    # The first request builds the blocks for ranges.
    session.request("n FROM t WHERE k > 0 GROUP BY ()")
    low, high = values // 2, values // 2 + values // 20
    for where, holds in (
        (f"k >= {low} AND k < {high}", lambda k, j: low <= k < high),
        (f"k > {low} AND k <= {high} AND j = 3", lambda k, j: low < k <= high and j == 3),
        (f"k BETWEEN {low} AND {high} AND j <> 4", lambda k, j: low <= k <= high and j != 4),
        (f"k > {high} AND k < {low}", lambda k, j: False),
    ):
        before = registered.visits.rows
        found = session.request(f"n FROM t WHERE {where} GROUP BY ()").to_pylist()[0]["n"]
        assert found == sum(holds(k, j) for k, j, _ in rows[:-1]), where
        assert registered.visits.rows - before < len(rows) * 0.2, where


def test_the_index_follows_what_is_asked_for() -> None:
    rng = Random(7)
    session = Session(Settings(tuning=Tuning(templates=TemplateTuning(block_rows=4096, requests_between=60))))
    session.execute(
        "SET epoch_rows = 1000000; SET template_batch = 'off'; CREATE STREAM s0 (k INT, j INT, ts TIMESTAMP) WITH (time = 'ts');"
        "CREATE TEMPLATE t AS SELECT k, j, COUNT(*) AS n FROM s0 [RANGE 1 DAY] GROUP BY k, j;"
        "CREATE REQUESTS q (id BIGINT, k INT, j INT, groups STRING, ts TIMESTAMP) FOR t WITH (time = 'ts', group_by = 'groups');"
    )
    rows = [(rng.randrange(900), rng.randrange(900), number * 1_000_000) for number in range(40_000)]
    session.push("s0", rows)
    session.step()
    registered = session.pipeline.kinds.one(TemplateKind).unit("t").registered
    second = len(rows)
    for column, epochs in ((1, 8), (0, 24)):
        for _ in range(epochs):
            asked = [
                (
                    n,
                    *((rng.randrange(900), None) if column == 0 else (None, rng.randrange(900))),
                    "",
                    second * 1_000_000,
                )
                for n in range(20)
            ]
            session.push("q", asked)
            second += 2
            session.push("s0", [(0, 0, second * 1_000_000)])
            session.step()
        bits = registered.address_bits
        assert bits is not None and bits[column] > bits[1 - column] + 3, (column, bits)
    assert registered.adjustment.changes >= 2
    # Blocks of earlier configurations are rebuilt a few at a time.
    assert registered.index is not None and len(registered.index.stale()) < len(registered.index.blocks)
