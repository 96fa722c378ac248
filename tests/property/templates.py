"""Random templates and requests over one stream.

Answer   `random_template(rng)` draws a stream, a template over it and rows in epochs; `random_ask(rng, case)` a
         request, both for the oracle and as text.
Limits   Grouping columns are columns of the stream.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tests.oracle.expressions import Agg, Call, Col, Expression, Lit, Value, render, span
from tests.oracle.relational import Last, Query, Range, Reference, Window
from tests.oracle.templates import Ask, Template
from tests.property.conditions import Column, Domain, random_domain, random_type
from tests.property.specs import Row, StreamSpec

SECOND = 1_000_000
_PATHS = ("auto", "auto", "scan", "imp")


@dataclass(frozen=True)
class TemplateCase:
    stream: StreamSpec
    columns: tuple[Column, ...]
    template: Template
    options: str
    #: Rows per epoch, in the order of their arrival.
    epochs: tuple[tuple[Row, ...], ...]
    #: The end of `history`, in microseconds.
    history: int

    @property
    def window(self) -> Window:
        window = self.template.query.references[0].window
        assert window is not None
        return window

    def twin(self) -> str:
        """A query that stands for what a request without conditions answers."""
        return f"CREATE QUERY twin AS {self._select()}"

    def statements(self) -> list[str]:
        return [self.stream.statement(), f"CREATE TEMPLATE t WITH ({self.options}) AS {self._select()}"]

    def _select(self) -> str:
        query = self.template.query
        chosen = ", ".join(f"{render(e)} AS {name}" for name, e in query.outputs)
        where = " WHERE " + " AND ".join(render(c) for c in query.where) if query.where else ""
        groups = ", ".join(render(e) for e in query.group_by)
        return f"SELECT {chosen} FROM s0 [{window_text(self.window)}] a{where} GROUP BY {groups}"


def window_text(window: Window) -> str:
    assert isinstance(window, Range | Last)
    return f"RANGE {span(window.micros)}" if isinstance(window, Range) else f"ROWS {window.count}"


def random_template(rng: Random, most: int = 60) -> TemplateCase:
    keys = []
    for number in range(rng.choice((1, 2, 2, 3))):
        family = rng.choice(("number", "text", "real", "day", "big", "flag"))
        keys.append(Column(f"k{number}", random_type(rng, family), random_domain(rng, family, rng.choice((2, 4, 9)))))
    measures = [
        Column("v0", rng.choice(("INT", "DOUBLE")), Domain("number", tuple(range(-3, 9)), rng.choice((0.0, 0.2))))
    ]
    if rng.random() < 0.3:
        # Sums beyond what their type holds.
        family = rng.choice(("big", "wide 4"))
        measures = [Column("v0", random_type(rng, family), random_domain(rng, family, 6))]
    columns = (*keys, *measures)
    declared = [(c.name, c.type) for c in columns] + [("ts", "TIMESTAMP")]
    stream = StreamSpec("s0", tuple(declared), "ts", rng.choice((0, 0, 2 * SECOND)))
    window: Window = Range(SECOND * rng.choice((0, 1, 5, 20))) if rng.random() < 0.7 else Last(rng.choice((1, 3, 10)))
    value = Col("a", "v0", measures[0].type)
    outputs: list[tuple[str, Expression]] = [(c.name, Col("a", c.name, c.type)) for c in keys]
    rng.shuffle(outputs)
    some: list[Expression] = [
        Agg("COUNT"),
        Agg("SUM", value),
        Agg("MIN", value),
        Agg("MAX", value),
        Agg("AVG", value),
        Agg("COUNT", value),
    ]
    for number, aggregate in enumerate(rng.sample(some, rng.randint(1, 3))):
        outputs.insert(rng.randint(0, len(outputs)), (f"m{number}", aggregate))
    where: tuple[Expression, ...] = (
        (Call(rng.choice((">", "<=", "<>")), (value, Lit(rng.randint(-2, 6), "INT"))),)
        if rng.random() < 0.4 and "38" not in value.type
        else ()
    )
    groups = tuple(Col("a", c.name, c.type) for c in keys)
    template = Template(Query((Reference("a", "s0", window),), where, tuple(outputs), groups))
    history = SECOND * rng.choice((0, 0, 3, 10))
    index = rng.choice((*_PATHS, f"imp({','.join(str(rng.randint(0, 3)) for _ in keys)})", f"hash({keys[0].name})"))
    options = f"bits = {rng.choice((0, 1, 4, 9))}, index = '{index}', history = '{history // SECOND} seconds'"
    return TemplateCase(
        stream, columns, template, options, _epochs(rng, columns, stream.lateness, rng.randint(0, most)), history
    )


def _epochs(rng: Random, columns: tuple[Column, ...], lateness: int, size: int) -> tuple[tuple[Row, ...], ...]:
    ts, flow = 0, []
    for _ in range(size):
        ts += SECOND * rng.choice((0, 0, 1, 2))
        flow.append((ts + rng.randint(0, lateness), (*(c.draw(rng) for c in columns), ts)))
    flow.sort(key=lambda one: one[0])
    rows = [row for _, row in flow]
    epochs = []
    while rows:
        cut = rng.choice((1, 3, 7, 30))
        epochs.append(tuple(rows[:cut]))
        rows = rows[cut:]
    return tuple(epochs)


def random_ask(rng: Random, case: TemplateCase) -> tuple[Ask, str]:
    """A request, and its text without AS OF."""
    query = case.template.query
    keys = [name for name, e in query.outputs if e in query.group_by]
    measures = [name for name, e in query.outputs if e not in query.group_by]
    by_name = {c.name: c for c in case.columns}
    group_by = tuple(keys) if rng.random() < 0.3 else tuple(rng.sample(keys, rng.randint(0, len(keys))))
    columns = tuple(rng.sample([*group_by, *measures], rng.randint(1, len(group_by) + len(measures))))
    window = _shorter(rng, case.window)
    conditions: list[Expression] = []
    texts: list[str] = []
    for name in rng.sample(keys, rng.randint(0, len(keys))):
        condition, text = _condition(rng, name, by_name[name])
        conditions.append(condition)
        texts.append(text)
    where = f" WHERE {' AND '.join(texts)}" if texts else ""
    groups = "" if group_by == tuple(keys) and rng.random() < 0.5 else f" GROUP BY {', '.join(group_by) or '()'}"
    shown = "" if window == case.window and rng.random() < 0.5 else f" [{window_text(window)}]"
    text = f"{', '.join(columns)} FROM t{shown}{where}{groups}"
    return Ask(columns, group_by, window, tuple(conditions)), text


def _shorter(rng: Random, window: Window) -> Window:
    if isinstance(window, Range):
        return Range(rng.randint(0, window.micros // SECOND) * SECOND) if rng.random() < 0.6 else window
    assert isinstance(window, Last)
    return Last(rng.randint(1, window.count)) if rng.random() < 0.6 else window


def _condition(rng: Random, name: str, column: Column) -> tuple[Expression, str]:
    """A condition over the stream's column for the oracle, and over the grouping column for the engine."""
    here, shown = Col("a", name, column.type), Col("", name, column.type)
    kind = rng.random()
    if kind < 0.15:
        return Call("is_null", (here,)), f"{name} IS NULL"
    values: list[Value] = [float(v) if column.type == "DOUBLE" else v for v in column.domain.values]
    literals = tuple(Lit(v, column.type) for v in rng.sample(values, min(len(values), rng.choice((1, 1, 1, 2, 3)))))
    if kind < 0.75:
        if len(literals) == 1:
            return Call("=", (here, literals[0])), _plain(Call("=", (shown, literals[0])))
        return Call("in", (here, *literals)), _plain(Call("in", (shown, *literals)))
    operator = rng.choice(("<", "<=", ">", ">=", "<>"))
    return Call(operator, (here, literals[0])), _plain(Call(operator, (shown, literals[0])))


def _plain(e: Expression) -> str:
    return render(e).replace(".", "", 1) if render(e).startswith(".") else render(e).replace("(.", "(", 1)
