"""Any stream, any template, any requests, any epochs: answers equal the oracle's, asked by hand or by a stream of
requests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from eddyline import Session
from eddyline.operators.template.blocks import Fields
from eddyline.runtime.engine.units.templates import TemplateKind
from eddyline.testing.clocks import MovedClock
from tests.oracle.intake import Epoch, Row, Stream, intake
from tests.oracle.relational import Last, Range
from tests.oracle.templates import Ask, answer
from tests.property.compare import canonical, plain_rows
from tests.property.specs import IDLE_SECONDS, arrow_table
from tests.property.templates import SECOND, TemplateCase, random_ask, random_template
from tests.seeds import cases, first_seed

BLOCK = 25
BLOCKS = cases(48, soak=400)
FIRST = first_seed()


def rows_of(case: TemplateCase) -> list[Row]:
    """The rows of the stream that are not late, in order."""
    names = [name for name, _ in case.stream.columns]
    epochs = [Epoch({"s0": [dict(zip(names, row, strict=True)) for row in rows]}) for rows in case.epochs]
    stream = Stream("s0", "ts", case.stream.lateness)
    return intake([stream], [*epochs, Epoch({}, closing=True)], frozenset(["s0"])).rows


class RequestRows:
    """A stream of requests beside the case: rows, and what each of them asks."""

    def __init__(self, rng: Random, case: TemplateCase) -> None:
        query = case.template.query
        self.keys = [name for name, e in query.outputs if e in query.group_by]
        self.measures = [name for name, e in query.outputs if e not in query.group_by]
        self.columns = {c.name: c for c in case.columns}
        self.parameters = rng.sample(self.keys, rng.randint(0, len(self.keys)))
        self.case = case
        self.time = 0
        self.asked: list[tuple[int, int, Ask]] = []

    def statement(self) -> str:
        parameters = "".join(f"{name} {self.columns[name].type}, " for name in self.parameters)
        return (
            f"CREATE REQUESTS asks (id BIGINT, {parameters}span BIGINT, groups STRING, what STRING, ts TIMESTAMP) FOR t "
            "WITH (time = 'ts', window = 'span', group_by = 'groups', aggregates = 'what')"
        )

    def draw(self, rng: Random, newest: int) -> list[tuple[object, ...]]:
        rows = []
        for _ in range(rng.choice((0, 0, 1, 3))):
            self.time = max(self.time, newest - rng.choice((0, SECOND, 3 * SECOND))) + rng.choice((0, SECOND // 2))
            whole = self.case.window
            size = whole.micros if isinstance(whole, Range) else whole.count if isinstance(whole, Last) else 0
            asked = None if rng.random() < 0.4 else rng.randint(0 if isinstance(whole, Range) else 1, size)
            values = [None if rng.random() < 0.3 else self.columns[name].draw(rng) for name in self.parameters]
            groups = None if rng.random() < 0.4 else rng.sample(self.keys, rng.randint(0, len(self.keys)))
            span = size if asked is None else asked
            window = Range(span) if isinstance(whole, Range) else Last(span)
            chosen = tuple(self.keys if groups is None else groups)
            wanted = None if rng.random() < 0.5 else rng.sample(self.measures, rng.randint(0, len(self.measures)))
            measures = self.measures if wanted is None else wanted
            ask = Ask((*chosen, *measures), chosen, window, tuple(self._conditions(values)))
            number = len(self.asked)
            self.asked.append((number, self.time, ask))
            listed = [None if names is None else ", ".join(names) for names in (groups, wanted)]
            rows.append((number, *values, asked, *listed, self.time))
        return rows

    def _conditions(self, values: list[object]) -> list[object]:
        from tests.oracle.expressions import Call, Col, Lit

        return [
            Call("=", (Col("a", name, self.columns[name].type), Lit(value, self.columns[name].type)))  # type: ignore[arg-type]
            for name, value in zip(self.parameters, values, strict=True)
            if value is not None
        ]

    def schema(self) -> tuple[tuple[str, str], ...]:
        parameters = tuple((name, self.columns[name].type) for name in self.parameters)
        return (
            ("id", "BIGINT"),
            *parameters,
            ("span", "BIGINT"),
            ("groups", "STRING"),
            ("what", "STRING"),
            ("ts", "TIMESTAMP"),
        )


def check(seed: int, folder: Path) -> None:
    rng = Random(seed)
    case = random_template(rng, 40)
    # Now and then the stream of rows falls silent, and requests go on.
    falls_idle = rng.random() < 0.35
    case = replace(case, stream=replace(case.stream, idle=falls_idle))
    clock = MovedClock()
    asking = RequestRows(rng, case)
    statements = ";\n".join([*case.statements(), asking.statement(), case.twin()]) + ";"
    rows = rows_of(case)
    table: dict[str, object] = {}
    restarts = rng.random() < 0.3
    where = str(folder / str(seed)) if restarts else None

    def opened() -> Session:
        session = Session(checkpoint=where, clock=clock)
        session.execute("SET checkpoint_seconds = 0;" + statements)
        return session

    session = opened()
    found = []
    newest = 0
    for number, arrived in enumerate(case.epochs):
        session.push("s0", arrow_table(case.stream.columns, arrived))
        newest = max([newest, *(row[-1] for row in arrived)])  # type: ignore[type-var]
        session.push("asks", arrow_table(asking.schema(), asking.draw(rng, newest)))
        session.step()
        found += plain_rows(session.queries["asks"].results())
        follow(table, case, plain_rows(session.queries["twin"].results()))
        if rng.random() < 0.3:
            migrate(rng, session)
        if rng.random() < 0.5:
            compare_asked(rng, session, case, rows, statements)
            compare_with_table(session, case, table, statements)
        if restarts and number == len(case.epochs) // 2:
            session.stop()
            found += plain_rows(session.queries["asks"].results())
            follow(table, case, plain_rows(session.queries["twin"].results()))
            session = opened()
    for _ in range(3 if falls_idle else 0):
        clock.advance(2 * IDLE_SECONDS)
        newest += rng.choice((1, 5, 30)) * 1_000_000
        session.push("asks", arrow_table(asking.schema(), asking.draw(rng, newest)))
        session.step()
        found += plain_rows(session.queries["asks"].results())
        if restarts and rng.random() < 0.5:
            session.stop()
            found += plain_rows(session.queries["asks"].results())
            follow(table, case, plain_rows(session.queries["twin"].results()))
            session = opened()
    session.run(final=False)
    found += plain_rows(session.queries["asks"].results())
    for number, instant, ask in asking.asked:
        mine = [row for row in found if row["id"] == number]
        given = sorted(canonical([row[c] for c in ask.columns]) for row in mine)
        right = sorted(canonical(row) for row in answer(case.template, ask, rows, instant))
        assert given == right, f"request {number} at {instant}: {ask}\n{statements}"
        assert all(row["_ts"] == instant for row in mine)
    assert [row["_ts"] for row in found] == sorted(row["_ts"] for row in found)


def follow(table: dict[str, object], case: TemplateCase, changes: list[dict[str, object]]) -> None:
    """The table that a changelog describes: one row per group."""
    query = case.template.query
    keys = [name for name, e in query.outputs if e in query.group_by]
    for change in changes:
        group = canonical([change[key] for key in keys])
        if change["_op"] == "-":
            del table[group]
        else:
            table[group] = canonical([change[name] for name, _ in query.outputs])


def compare_with_table(session: Session, case: TemplateCase, table: dict[str, object], statements: str) -> None:
    """A request without conditions equals the table of the same query with EMIT ON CHANGE."""
    names = [name for name, _ in case.template.query.outputs]
    found = plain_rows([session.request(f"{', '.join(names)} FROM t")])
    assert sorted(canonical([row[name] for name in names]) for row in found) == sorted(table.values()), statements  # type: ignore[type-var]


def migrate(rng: Random, session: Session) -> None:
    """Let the index of the template go to another configuration, now."""
    index = session.pipeline.kinds.one(TemplateKind).unit("t").registered.index
    if index is not None and isinstance(index.addressing, Fields):
        index.reconfigure(Fields(tuple(rng.randint(0, 3) for _ in index.addressing.bits)))


def compare_asked(rng: Random, session: Session, case: TemplateCase, rows: list[Row], statements: str) -> None:
    frontier = session.pipeline.kinds.one(TemplateKind).unit("t").frontier
    asks = [random_ask(rng, case) for _ in range(rng.choice((1, 3)))]
    # Shorter windows reach further back.
    spare = (
        min((_size(case.window) - _size(ask.window) for ask, _ in asks), default=0)
        if isinstance(case.window, Range)
        else 0
    )
    instant = None if frontier is None else rng.randint(frontier - 1 - case.history - spare, frontier - 1)
    shown = None if instant is None or rng.random() < 0.5 else instant
    as_of = "" if shown is None else f" AS OF TIMESTAMP '{_text(shown)}'"
    tables = session.request([text + as_of for _, text in asks])
    now = -(10**18) if frontier is None else frontier - 1 if shown is None else shown
    for (ask, text), table in zip(asks, tables, strict=True):
        given = sorted(canonical([row[c] for c in ask.columns]) for row in plain_rows([table]))
        right = sorted(canonical(row) for row in answer(case.template, ask, rows, now))
        assert given == right, f"{text}{as_of}\n{statements}"


def _size(window: object) -> int:
    return window.micros if isinstance(window, Range) else 0


def _text(instant: int) -> str:
    import numpy as np

    return str(np.datetime64(instant, "us")).replace("T", " ")


@pytest.mark.property
@pytest.mark.parametrize("block", range(BLOCKS))
def test_requests_equal_the_oracle(block: int, tmp_path: Path) -> None:
    for seed in range(FIRST + block * BLOCK, FIRST + (block + 1) * BLOCK):
        try:
            check(seed, tmp_path)
        except Exception as problem:
            raise AssertionError(f"check({seed})") from problem
