"""Random cases: schemas, streams with disorder, windows, queries, plans and epochs.

Answer   `random_case(rng)` draws one case from a `random.Random`; `cases()` is the same as a hypothesis strategy.
Limits   Sizes are such that the oracle answers a case in some milliseconds. Queries start with the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from hypothesis import strategies as st

from tests.oracle.aggregation import is_aggregate
from tests.oracle.expressions import Agg, Call, Col, Expression, Lit, Value
from tests.oracle.relational import ON_CHANGE, Emit, Last, LastPer, Now, Query, Range, Reference, Unbounded, Window
from tests.property.conditions import (
    WIDE,
    Column,
    Domain,
    Place,
    filter_on,
    inequality,
    join_on,
    random_domain,
    random_type,
    some_output,
)
from tests.property.specs import Case, QuerySpec, StreamSpec, TableSpec

SECOND = 1_000_000
#: The most rows of a stream in a case, by the largest number of references of its queries.
_MOST_ROWS = {1: 60, 2: 60, 3: 34, 4: 18, 5: 12}
_STEPS = ((0, 1), (0, 0, 1, 2), (1,), (1, 2, 4), (0, 0, 0, 6), (0, 1, 1, 2, 3))


@dataclass(frozen=True)
class Source:
    """A stream or table with what only the generator knows of it."""

    spec: StreamSpec | TableSpec
    columns: tuple[Column, ...]

    def place(self, alias: str) -> Place:
        return Place(alias, self.columns, self.spec.time if isinstance(self.spec, StreamSpec) else None)


def cases() -> st.SearchStrategy[Case]:
    """Cases whose every choice is hypothesis's, so that it can shrink them."""
    return st.randoms(use_true_random=False).map(random_case)


def random_case(rng: Random) -> Case:
    references = rng.choices((1, 2, 3, 4, 5), (14, 36, 28, 17, 5))[0]
    tick = rng.choice((SECOND, SECOND, SECOND, SECOND // 4, SECOND // 4, 1_000, 1))
    base = rng.choice((0, 1_700_000_000 * SECOND, -20 * SECOND, 59 * SECOND + 7 * tick))
    families = ("number", "text", "real", "big", "day", "money")
    keys = [random_domain(rng, family, 4) for family in rng.choices(families, (6, 3, 1, 1, 1, 1), k=2)]
    streams = [
        _stream(rng, f"s{i}", keys, tick)
        for i in range(min(rng.choices((1, 2, 3, 4), (2, 4, 3, 2))[0], references + 1))
    ]
    tables = [_table(rng, keys)] if rng.random() < 0.2 else []
    count = rng.choices((1, 2, 3), (60, 25, 15))[0]
    queries = [
        _query(rng, f"q{i}", [*streams, *tables], references if i == 0 else rng.randint(1, min(3, references)), tick)
        for i in range(count)
    ]
    scheduler = None
    if references in (2, 3) and rng.random() < 0.15:
        # The same join with other windows: its results can be released strip by strip.
        queries += [_sibling(rng, queries[0], f"w{i}", tick) for i in range(rng.randint(1, 3))]
        scheduler = rng.choice(("lwo", "swf", "mqt"))
    read = {r.source for q in queries for r in q.references}
    streams = [s for s in streams if s.spec.name in read or rng.random() < 0.25]
    flow = _flow(rng, streams, _MOST_ROWS[references], tick, base)
    arrivals = _split(rng, flow)
    pauses: tuple[int, ...] = ()
    if len(streams) > 1 and rng.random() < 0.25 and len(arrivals) > 2:
        streams = [replace(s, spec=replace(s.spec, idle=rng.random() < 0.6)) for s in streams]
        pauses = tuple(sorted(rng.sample(range(1, len(arrivals)), rng.randint(1, min(4, len(arrivals) - 1)))))
    queries = [_judged(rng, q, {s.spec.name: s for s in streams}) if rng.random() < 0.2 else q for q in queries]
    return Case(
        tuple(s.spec for s in streams),
        tuple(queries),
        arrivals,
        tuple(t.spec for t in tables),
        pauses=pauses,
        scheduler=scheduler,
    )


def _judged(rng: Random, spec: QuerySpec, sources: Mapping[str, Source]) -> QuerySpec:
    """A query with NOW and PARTITION BY … ROWS among its windows; groups that close stay as they are."""
    if spec.emit.kind == "close" and is_aggregate(
        Query(spec.references, spec.where, spec.outputs, spec.group_by, spec.having, spec.distinct)
    ):
        return spec
    references = []
    for reference in spec.references:
        if reference.window is not None and rng.random() < 0.6:
            # NaN is no value of a partition that plain equality finds.
            columns = [name for name, kind in sources[reference.source].spec.columns if kind != "DOUBLE"]
            some = tuple(rng.sample(columns, min(len(columns), rng.choice((1, 1, 2)))))
            window = Now() if rng.random() < 0.3 else LastPer(some, rng.choice((1, 1, 2, 3)))
            reference = replace(reference, window=window)
        references.append(reference)
    return replace(spec, references=tuple(references))


def _sibling(rng: Random, spec: QuerySpec, name: str, tick: int) -> QuerySpec:
    """A query over the same join with other windows; those of EMIT ON CLOSE stay RANGE."""
    references = tuple(
        r
        if r.window is None
        else replace(r, window=Range(tick * rng.choice((1, 2, 4, 9, 30))) if isinstance(r.window, Range) else r.window)
        for r in spec.references
    )
    return replace(spec, name=name, references=references)


# ---- streams and tables


def _stream(rng: Random, name: str, keys: Sequence[Domain], tick: int) -> Source:
    columns = _some_columns(rng, keys)
    time = "ts" if rng.random() < 0.85 else "at"
    declared = [(c.name, c.type) for c in columns]
    declared.insert(rng.randint(0, len(declared)), (time, "TIMESTAMP"))
    sequence = "seq" if rng.random() < 0.12 else None
    if sequence:
        declared.append((sequence, "BIGINT"))
    lateness = tick * rng.choice((0, 0, 1, 2, 3, 6))
    return Source(StreamSpec(name, tuple(declared), time, lateness, sequence), columns)


def _table(rng: Random, keys: Sequence[Domain]) -> Source:
    columns = _some_columns(rng, keys)
    rows = tuple(tuple(c.draw(rng) for c in columns) for _ in range(rng.choice((0, 1, 2, 4, 6))))
    return Source(TableSpec("t0", tuple((c.name, c.type) for c in columns), rows), columns)


def _some_columns(rng: Random, keys: Sequence[Domain]) -> tuple[Column, ...]:
    columns = [
        Column(rng.choice((f"k{i}", f"x{i}")), random_type(rng, d.family), d)
        for i, d in enumerate(keys)
        if i == 0 or rng.random() < 0.8
    ]
    for i in range(rng.randint(0, 2)):
        family = rng.choices(
            ("number", "text", "real", "day", "flag", "money", "big", *WIDE), (8, 4, 6, 2, 2, 4, 2, 1, 1, 1)
        )[0]
        columns.append(Column(f"v{i}", random_type(rng, family), random_domain(rng, family, 6)))
    return tuple(columns)


def _flow(
    rng: Random, streams: Sequence[Source], most: int, tick: int, base: int
) -> list[tuple[str, tuple[Value, ...]]]:
    """The rows of all streams in the order in which they arrive."""
    flow: list[tuple[float, str, tuple[Value, ...]]] = []
    for source in streams:
        spec = source.spec
        size = 0 if rng.random() < 0.03 else rng.randint(most // 3, most)
        disorder = rng.choices(("none", "within", "beyond"), (3, 4, 3))[0]
        lag = tick * rng.choice((0, 0, 0, 3, 15))
        steps = rng.choice(_STEPS)
        bad = 0.1 if rng.random() < 0.04 else 0.0
        numbers = list(range(size)) if rng.random() < 0.5 else rng.sample(range(size), size)
        ts = base + tick * rng.randint(0, 5)
        by_name = {c.name: c for c in source.columns}
        for i in range(size):
            ts += tick * rng.choice(steps)
            fixed: dict[str, Value] = {spec.time: None if rng.random() < bad else ts, "seq": numbers[i]}
            row = tuple(fixed[name] if name in fixed else by_name[name].draw(rng) for name, _ in spec.columns)
            flow.append((ts + lag + _delay(rng, disorder, spec.lateness, tick), spec.name, row))
    flow.sort(key=lambda arrival: arrival[0])
    return [(name, row) for _, name, row in flow]


def _delay(rng: Random, disorder: str, lateness: int, tick: int) -> int:
    if disorder == "none":
        return 0
    if disorder == "beyond" and rng.random() < 0.25:
        return lateness + tick * rng.randint(1, 12)
    return rng.randint(0, lateness // tick) * tick


def _split(
    rng: Random, flow: Sequence[tuple[str, tuple[Value, ...]]]
) -> tuple[tuple[tuple[str, tuple[tuple[Value, ...], ...]], ...], ...]:
    """The arrivals in epochs: one row each, a few, many, or everything at once."""
    least, largest = rng.choices(((1, 1), (1, 6), (0, 15), (10, 40), (10**6, 10**6)), (10, 35, 25, 20, 10))[0]
    if largest == 1:
        flow = flow[:40]
    epochs = []
    at = 0
    while at < len(flow):
        size = rng.randint(least, largest)
        rows: dict[str, list[tuple[Value, ...]]] = {}
        for name, row in flow[at : at + size]:
            rows.setdefault(name, []).append(row)
        epochs.append(tuple((name, tuple(r)) for name, r in rows.items()))
        at += size
    return tuple(epochs)


# ---- queries


def _query(rng: Random, name: str, sources: Sequence[Source], size: int, tick: int) -> QuerySpec:
    streams = [s for s in sources if isinstance(s.spec, StreamSpec)]
    tables = [s for s in sources if isinstance(s.spec, TableSpec)]
    chosen = _choose_streams(rng, streams, size)
    if tables and size > 1 and rng.random() < 0.7:
        chosen[rng.randrange(size)] = tables[0]
    if all(c in tables for c in chosen):
        chosen[0] = rng.choice(streams)
    places = [source.place(alias) for source, alias in zip(chosen, "abcde", strict=False)]
    references = tuple(
        Reference(p.alias, s.spec.name, _window(rng, tick, size) if p.time else None)
        for p, s in zip(places, chosen, strict=True)
    )
    where: list[Expression] = []
    for i in range(1, size):
        where += join_on(rng, places[rng.randrange(i)], places[i], tick)
    if size > 2 and rng.random() < 0.3:
        where += join_on(rng, *rng.sample(places, 2), tick)
    if size > 2 and rng.random() < 0.1:
        where.append(Call("or", (inequality(rng, places[0], places[1], tick), filter_on(rng, places[2]))))
    where += [filter_on(rng, p) for p in places if rng.random() < (0.3 if size > 1 else 0.6)]
    if size > 3 and len(where) < size - 1:
        where.append(inequality(rng, places[0], places[-1], tick))
    rng.shuffle(where)
    return _select(
        rng, QuerySpec(name, references, tuple(dict.fromkeys(where)), **_writing(rng, references)), places, tick
    )


def _choose_streams(rng: Random, streams: Sequence[Source], size: int) -> list[Source]:
    if rng.random() < 0.15:
        return [rng.choice(streams)] * size
    order = rng.sample(list(streams), len(streams))
    return [order[i % len(order)] if rng.random() < 0.8 else rng.choice(streams) for i in range(size)]


def _window(rng: Random, tick: int, size: int) -> Window:
    kind = rng.random()
    if kind < 0.58:
        return Range(
            tick * rng.choice((0, 1, 2, 3, 5, 8, 12, 20, 60))
            + (rng.choice((0, 1)) if tick > 1 and rng.random() < 0.1 else 0)
        )
    if kind < 0.82:
        return Last(rng.choice((1, 2, 3, 5, 10, 1000)))
    return Unbounded() if size < 4 or rng.random() < 0.5 else Range(tick * 8)


def _writing(rng: Random, references: Sequence[Reference]) -> dict[str, object]:
    streams = [r.alias for r in references if r.window is not None]
    plan = rng.choice(("auto", "mjoin", "bjtree", "tree", "tree")) if len(streams) > 1 else "auto"
    if plan == "tree":
        rng.shuffle(streams)
        plan = _tree(rng, streams)
    return {
        "plan": plan,
        "probe": rng.choice(("hash", "hash", "hash", "loop")),
        "joins_written": rng.random() < 0.3,
        "window_last": rng.random() < 0.3,
        "by_set": rng.random() < 0.3,
    }


def _tree(rng: Random, names: Sequence[str]) -> str:
    """A random join tree: each group has two or more members."""
    if len(names) == 1:
        return names[0]
    cuts = sorted(rng.sample(range(1, len(names)), rng.randint(1, len(names) - 1)))
    parts = [names[a:b] for a, b in zip([0, *cuts], [*cuts, len(names)], strict=True)]
    return f"({' '.join(_tree(rng, part) for part in parts)})"


def _select(rng: Random, spec: QuerySpec, places: Sequence[Place], tick: int) -> QuerySpec:
    """The query with what it selects: columns and expressions, everything, or aggregates."""
    kind = rng.random()
    if kind < 0.12:
        return spec
    if kind < 0.7:
        return replace(spec, outputs=tuple((f"c{i}", some_output(rng, places)) for i in range(rng.randint(1, 4))))
    groups: list[Expression] = []
    for _ in range(rng.choice((0, 1, 1, 2))):
        place = rng.choice(places)
        groups.append(place.col(rng.choice(place.columns)))
    streams = [p for p in places if p.time]
    emit = ON_CHANGE
    ranges = {r.alias for r in spec.references if isinstance(r.window, Range)}
    closable = [p for p in streams if len(streams) == 1 or p.alias in ranges]
    closing = closable and rng.random() < 0.5
    if closing:
        # Often several buckets, also of references that do not close the group.
        chosen = [rng.choice(closable), *rng.sample(streams, rng.choice((0, 0, 0, 1)))]
        groups += [_bucket(rng, Col(p.alias, p.time, "TIMESTAMP"), tick) for p in chosen]
        emit = Emit("close")
    elif rng.random() < 0.4:
        emit = Emit("every", tick * rng.choice((2, 3, 5, 10)))
    groups = list(dict.fromkeys(groups))
    if groups and not closing and rng.random() < 0.15:
        return replace(spec, outputs=tuple((f"g{i}", e) for i, e in enumerate(groups)), distinct=True, emit=emit)
    aggregates = [_aggregate(rng, places) for _ in range(rng.randint(1, 3))]
    outputs = [(f"g{i}", e) for i, e in enumerate(groups)] + [(f"m{i}", e) for i, e in enumerate(aggregates)]
    rng.shuffle(outputs)
    having = (
        Call(rng.choice((">", "<=", "<>")), (Agg("COUNT"), Lit(rng.choice((0, 1, 2)), "INT")))
        if rng.random() < 0.25
        else None
    )
    return replace(spec, outputs=tuple(outputs), group_by=tuple(groups), having=having, emit=emit)


def _bucket(rng: Random, time: Col, tick: int) -> Expression:
    """A monotone function of an event time, with a few ticks to a bucket."""
    size = tick * rng.choice((1, 2, 3, 5, 20, 300))
    micros = Call("epoch_us", (time,))
    units = {
        1: "microsecond",
        1_000: "millisecond",
        SECOND // 4: "second",
        SECOND: rng.choice(("second", "minute", "minute", "day")),
    }
    forms = (
        lambda: Call(f"date_trunc:{units[tick]}", (time,)),
        lambda: Call("//", (micros, Lit(size, "BIGINT"))),
        lambda: Call("*", (Call("//", (micros, Lit(size, "BIGINT"))), Lit(size, "BIGINT"))),
        lambda: Call("//", (Call("-", (Lit(7 * tick, "BIGINT"), micros)), Lit(size, "BIGINT"))),
        lambda: Call(f"date_trunc:{units[tick]}", (Call("+", (time, Lit(3 * tick, "INTERVAL"))),)),
        lambda: Call("cast:DATE", (time,)),
        lambda: Call("+", (Call("neg", (Call("//", (micros, Lit(size, "BIGINT"))),)), Lit(4, "INT"))),
    )
    return rng.choices(forms, (6, 4, 2, 1, 2, 1, 1))[0]()


def _aggregate(rng: Random, places: Sequence[Place]) -> Expression:
    place = rng.choice(places)
    numbers = place.of("number", "real", "money", "big", *WIDE)
    column = rng.choice(place.columns)
    kind = rng.random()
    if kind < 0.25:
        return Agg("COUNT")
    if kind < 0.4:
        return Agg("COUNT", place.col(column), distinct=rng.random() < 0.6)
    if kind < 0.62 and column.domain.family != "flag":
        function = rng.choice(("MIN", "MAX", "ARG_MIN", "ARG_MAX"))
        times = tuple(Col(p.alias, p.time, "TIMESTAMP") for p in places if p.time)
        if function in ("MIN", "MAX"):
            if len(places) == 1 and column.domain.family == "text" and function == "MAX":
                return Agg("STRING_AGG", place.col(column), times=times)
            return Agg(function, place.col(column))
        return Agg(function, place.col(rng.choice(place.columns)), by=place.col(column), times=times)
    if not numbers:
        return Agg("COUNT", place.col(column))
    col = place.col(rng.choice(numbers))
    if kind < 0.67 and not col.type.startswith("DECIMAL"):
        return Call("+", (Agg("SUM", col), Agg("COUNT")))
    # Neighbours among 38 digits are one DOUBLE, and only just: a deviation of them would say how they were converted.
    functions = ("SUM", "SUM", "AVG", "STDDEV") if "38" not in col.type else ("SUM", "SUM", "AVG")
    return Agg(rng.choice(functions), col, distinct=rng.random() < 0.2)
