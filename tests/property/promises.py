"""Random streams with punctuations: what a session is given, and what it must answer.

Answer   `random_world(rng)` draws streams, promises and queries; `run` gives them to a session; `expected` is what the oracle says.
         Promises are drawn from the data: each says that a value has come for the last time. A world with lies says so too early.
Limits   Small: a handful of values, up to some twenty rows per stream.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from random import Random
from typing import Any

from eddyline import Session
from eddyline.settings import Settings
from tests.oracle.promises import LAST, Equality, Placed, Promise, Reference, World, violations

STREAMS = ("a", "b", "c")
SECOND = 1_000_000
NULL_EVERY = 9
COLUMNS = ("id", "k", "j", "v", "t")
UNITED = "SELECT k AS g, count(*) AS n FROM u GROUP BY k EMIT ON CLOSE"


@dataclass
class Stream:
    name: str
    rows: list[dict[str, object]]
    key: bool = False
    #: Ends of values are marked in the column `done`.
    marks: bool = False
    #: Column `j` of other streams' rows ends values of `k` here: the name of that stream.
    source: str | None = None
    lateness: int = 0


@dataclass
class Ask:
    """A join, asked for as it is and grouped."""

    references: list[Reference]
    equalities: list[Equality]
    group_column: str = "k"
    filters: dict[str, str] = field(default_factory=dict)
    windows: dict[str, str] = field(default_factory=dict)
    #: (first, second, seconds): the second reference is at most so much later than the first.
    bounds: list[tuple[str, str, int]] = field(default_factory=list)

    @property
    def select(self) -> str:
        names = ", ".join(f"{r.alias}.id AS {r.alias}_id" for r in self.references)
        return f"SELECT {names} FROM {self._from()}{self._where()}"

    @property
    def closing(self) -> str:
        first = f"{self.references[0].alias}.{self.group_column}"
        return f"SELECT {first} AS g, count(*) AS n FROM {self._from()}{self._where()} GROUP BY {first} EMIT ON CLOSE"

    @property
    def told(self) -> str:
        """Asked for with `propagate = on`."""
        return f"SELECT {self.references[0].alias}.{self.group_column} AS g FROM {self._from()}{self._where()}"

    def _from(self) -> str:
        return ", ".join(f"{r.stream} {self.windows.get(r.alias, '')} AS {r.alias}" for r in self.references)

    def _where(self) -> str:
        parts = [f"{a}.{x} = {b}.{y}" for a, x, b, y in self.equalities]
        parts += [f"{alias}.{text}" for alias, text in self.filters.items()]
        parts += [f"{b}.ts <= {a}.ts {'-' if seconds < 0 else '+'} INTERVAL '{abs(seconds)} seconds'" for a, b, seconds in self.bounds]
        return f" WHERE {' AND '.join(parts)}" if parts else ""

    def storing(self) -> list[Reference]:
        """The references with the windows that bounds between event times imply where nothing else is written."""
        aliases = [reference.alias for reference in self.references]
        later = {(b, a): seconds * SECOND for a, b, seconds in self.bounds}
        for reference in self.references:
            for other in aliases:
                if reference.range is not None:
                    later[other, reference.alias] = min(later.get((other, reference.alias), reference.range), reference.range)
        for middle in aliases:
            for b in aliases:
                for a in aliases:
                    if (b, middle) in later and (middle, a) in later:
                        way = later[b, middle] + later[middle, a]
                        later[b, a] = min(later.get((b, a), way), way)
        found = []
        for reference in self.references:
            spans = [later.get((other, reference.alias)) for other in aliases if other != reference.alias]
            bounded = bool(spans) and None not in spans and reference.range is None and reference.rows is None
            found.append(replace(reference, range=max(0, *(s for s in spans if s is not None))) if bounded else reference)
        return found


#: stream, condition, instant, the oracle's pattern, the values of a list.
Said = tuple[str, str, int, tuple[tuple[str, object], ...], tuple[tuple[str, object], ...]]


@dataclass
class Case:
    streams: list[Stream]
    asks: list[Ask] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)
    epochs: int = 3
    #: The first two streams are put together by UNION ALL, and the union is grouped.
    united: bool = False

    def declarations(self) -> list[str]:
        found = []
        for stream in self.streams:
            options = ["time = 'ts'"]
            options += ["key = 'id'"] if stream.key else []
            options += ["punctuation = 'done'"] if stream.marks else []
            options += [f"lateness = '{stream.lateness} seconds'"] if stream.lateness else []
            options += ["remember = '100000 days'"]
            columns = "id BIGINT, k BIGINT, j BIGINT, v DOUBLE, t STRING, done BOOLEAN, ts TIMESTAMP"
            found.append(f"CREATE STREAM {stream.name} ({columns}) WITH ({', '.join(options)})")
        for stream in self.streams:
            if stream.source is not None:
                found.append(f"CREATE PUNCTUATION p{stream.name} ON {stream.name} (k) FROM {stream.source} (j)")
        if self.united:
            parts = " UNION ALL ".join(f"SELECT {', '.join(COLUMNS)} FROM {stream.name}" for stream in self.streams[:2])
            found.append(f"CREATE STREAM u WITH (propagate = 'on') AS {parts}")
        for name, condition, instant, *_ in self.said:
            found.append(f"PUNCTUATE {name} WHERE {condition} AT TIMESTAMP '1970-01-01 00:00:{instant // SECOND:02d}'")
        return found


def random_case(rng: Random, lies: bool = False) -> Case:
    count = rng.choice((1, 2, 2, 3, 3))
    case = Case([_stream(rng, name) for name in STREAMS[:count]], epochs=rng.choice((1, 2, 4, 8)))
    for _ in range(3):
        shape = rng.choice(("star", "star", "chain", "chain", "self", "texts")) if count > 1 else "single"
        column = "t" if shape == "texts" else rng.choice(("k", "k", "k", "t"))
        ask = Ask(*_shape(shape, case.streams), column)
        for place, reference in enumerate(ask.references):
            ask.references[place] = _windowed(rng, ask, _filtered(rng, ask, reference))
        if len(ask.references) > 1 and rng.random() < 0.3:
            pairs = rng.choice((list(zip(ask.references, ask.references[1:], strict=False)), [ask.references[:2]]))
            ask.bounds = [(a.alias, b.alias, rng.randrange(-1, 5)) for a, b in pairs]
            ask.bounds += [(b.alias, a.alias, rng.randrange(0, 5)) for a, b in pairs if rng.random() < 0.5]
        case.asks.append(ask)
    for stream in case.streams:
        _promise(rng, case, stream, lies)
    case.united = count > 1 and rng.random() < 0.5
    return case


def _stream(rng: Random, name: str) -> Stream:
    rows: list[dict[str, object]] = []
    now = 0
    for number in range(rng.randrange(4, 20)):
        now += rng.choice((0, 0, 1, 1, 2))
        k = rng.randrange(4) if rng.randrange(NULL_EVERY) else None
        row: dict[str, object] = {
            "id": number,
            "k": k,
            "j": rng.randrange(4),
            "v": rng.randrange(3) * 0.5,
            "t": f"x{k}" if k is not None else None,
        }
        rows.append({**row, "done": False, "ts": now * SECOND})
    found = Stream(name, rows)
    if rng.random() < 0.3:
        found.lateness = 2
        for at in range(len(rows) - 1):
            gap = int(str(rows[at + 1]["ts"])) - int(str(rows[at]["ts"]))
            if rng.random() < 0.3 and gap <= SECOND:
                rows[at], rows[at + 1] = rows[at + 1], rows[at]
    return found


def _shape(shape: str, streams: list[Stream]) -> tuple[list[Reference], list[Equality]]:
    names = [stream.name for stream in streams]
    if shape == "single":
        return [Reference("r0", names[0])], []
    if shape == "self":
        return [Reference("r0", names[0]), Reference("r1", names[0])], [("r0", "k", "r1", "k")]
    references = [Reference(f"r{place}", name) for place, name in enumerate(names)]
    column = "t" if shape == "texts" else "k"
    if shape in ("star", "texts"):
        return references, [("r0", column, f"r{place}", column) for place in range(1, len(names))]
    return references, [(f"r{place}", ("k", "j")[place % 2], f"r{place + 1}", ("k", "j")[place % 2]) for place in range(len(names) - 1)]


def _filtered(rng: Random, ask: Ask, reference: Reference) -> Reference:
    if rng.random() < 0.8:
        return reference
    value = rng.randrange(3) * 0.5
    ask.filters[reference.alias] = f"v = {value}"
    return replace(reference, filter=lambda row, value=value: row["v"] == value, fixed=(("v", value),))  # type: ignore[misc]


def _windowed(rng: Random, ask: Ask, reference: Reference) -> Reference:
    draw = rng.random()
    if draw < 0.6:
        return reference
    if draw < 0.85:
        seconds = rng.randrange(1, 6)
        ask.windows[reference.alias] = f"[RANGE {seconds} SECONDS]"
        return replace(reference, range=seconds * SECOND)
    rows = rng.randrange(1, 5)
    ask.windows[reference.alias] = f"[ROWS {rows}]"
    return replace(reference, rows=rows)


def _promise(rng: Random, case: Case, stream: Stream, lies: bool) -> None:
    ways = rng.sample(("key", "marks", "said", "said", "marks", "derived"), rng.randrange(1, 6))
    stream.key = "key" in ways
    if stream.key and lies and rng.random() < 0.5:
        stream.rows[-1]["id"] = stream.rows[0]["id"]
    if "marks" in ways and not stream.lateness:
        stream.marks = True
        _mark(rng, stream, lies)
    if "said" in ways:
        for _ in range(rng.randrange(1, 8)):
            _say(rng, case, stream, lies)
    if "derived" in ways and len(case.streams) > 1 and lies:
        other = rng.choice([s for s in case.streams if s is not stream])
        # No two streams wait for each other, over a third one either.
        if all(s.source is None for s in case.streams):
            stream.source = other.name


def _mark(rng: Random, stream: Stream, lies: bool) -> None:
    """Rows that end a value, somewhere after its last row, or before it."""
    for value in range(4):
        if rng.random() < 0.2:
            continue
        column = rng.choice(("k", "k", "j", "t"))
        wanted: object = f"x{value}" if column == "t" else value
        last = max((at for at, row in enumerate(stream.rows) if row[column] == wanted and not row["done"]), default=0)
        at = rng.randrange(0 if lies else last, len(stream.rows))
        empty = dict.fromkeys(COLUMNS)
        stream.rows.insert(at + 1, {**empty, column: wanted, "done": True, "ts": stream.rows[at]["ts"]})


def _say(rng: Random, case: Case, stream: Stream, lies: bool) -> None:
    rows = [row for row in stream.rows if not row["done"]]
    column = rng.choice(("k", "k", "j", "t", "v"))
    draw = rng.random()
    value = rng.randrange(4)
    if column == "t":
        pattern, text = (("t", f"x{value}"),), f"t = 'x{value}'"
    elif column == "v":
        pattern, text = (("v", value * 0.5), ("k", value)), f"v = {value * 0.5} AND k = {value}"
    elif draw < 0.5:
        pattern, text = ((column, value),), f"{column} = {value}"
    elif draw < 0.75:
        pattern, text = ((column, lambda x, value=value: x <= value),), f"{column} <= {value}"
    else:
        pattern, text = ((column, lambda x, value=value: x in (value, value + 1)),), f"{column} IN ({value}, {value + 1})"
    promise = Promise(stream.name, pattern, (0, 0, 0))  # type: ignore[arg-type]
    covered = [int(str(row["ts"])) for row in rows if promise.covers(row)]
    earliest = 0 if lies else max(covered, default=0) // SECOND
    newest = max(int(str(row["ts"])) for row in rows) // SECOND
    instant = rng.randrange(earliest, max(earliest, newest) + 2) * SECOND
    if (column, text) != ("v", "") and instant < 60 * SECOND:
        listed = ((column, value), (column, value + 1)) if " IN " in text else ()
        case.said.append((stream.name, text, instant, pattern, listed))  # type: ignore[arg-type]


# -- the engine


def run(case: Case, settings: Settings) -> tuple[dict[str, list[object]], dict[str, list[tuple[int, str]]], dict[str, Any]]:
    """Results per query, ids of violations per stream, and statistics."""
    with Session(settings) as session:
        declare(session, case)
        for epoch in range(case.epochs):
            push(session, case, epoch)
            session.step()
        session.run(once=True)
        return outcome(session, case)


def declare(session: Session, case: Case) -> None:
    for text in case.declarations():
        session.execute(text)
    for number, ask in enumerate(case.asks):
        session.query(f"joined{number}", ask.select)
        session.query(f"closing{number}", ask.closing)
        session.query(f"told{number}", ask.told, propagate="on")
        session.query(f"changing{number}", ask.closing.replace(" EMIT ON CLOSE", ""))
    if case.united:
        session.query("united", UNITED)


def push(session: Session, case: Case, epoch: int) -> None:
    for stream in case.streams:
        size = len(stream.rows)
        part = stream.rows[epoch * size // case.epochs : (epoch + 1) * size // case.epochs]
        if part:
            session.push(stream.name, part)


def outcome(session: Session, case: Case) -> tuple[dict[str, list[object]], dict[str, list[tuple[int, str]]], dict[str, Any]]:
    # Names with a bar in front are those of the parts of a union.
    queries = [(name, query) for name, query in session.queries.items() if not name.startswith("_")]
    found = {name: plain((query.punctuations() if name.startswith("told") else query.table()).to_pylist()) for name, query in queries}
    dead = {
        s.name: sorted((int(row["id"]), str(row["_reason"]).split(":")[0]) for row in session.dead_letters(s.name).to_pylist())
        for s in case.streams
    }
    return found, dead, session.stats()


def plain(rows: list[dict[str, object]]) -> list[object]:
    return sorted((tuple(sorted((k, str(v)) for k, v in row.items() if k != "_op")) for row in rows), key=str)


# -- the oracle


def placed(case: Case) -> tuple[list[Placed], list[Promise]]:
    """All rows in total order, and all promises."""
    rows: list[Placed] = []
    promises: list[Promise] = []
    positions = {stream.name: at for at, stream in enumerate(case.streams)}
    for stream in case.streams:
        for at, row in enumerate(stream.rows):
            place = (int(str(row["ts"])), positions[stream.name], at)
            if row["done"]:
                pattern = tuple((c, row[c]) for c in COLUMNS if row[c] is not None)
                promises.append(Promise(stream.name, pattern, place))
                continue
            rows.append(Placed(stream.name, row, place))
            if stream.key:
                promises.append(Promise(stream.name, (("id", row["id"]),), place))
            for other in case.streams:
                if other.source == stream.name and row["j"] is not None:
                    promises.append(Promise(other.name, (("k", row["j"]),), (place[0], LAST, 0)))
    for name, _, instant, pattern, listed in case.said:
        promises.append(Promise(name, pattern, (instant, LAST, 0), listed))
    return sorted(rows, key=lambda row: row.place), promises


def expected(case: Case) -> tuple[dict[str, list[object]], dict[str, list[tuple[int, str]]]]:
    """Results per query, and violations per stream."""
    rows, promises = placed(case)
    dead = violations(rows, promises, {})
    kept = [row for row in rows if row.place not in dead]
    letters = {
        s.name: sorted((int(str(r.values["id"])), "violation") for r in rows if r.place in dead and r.stream == s.name)
        for s in case.streams
    }
    answers: dict[str, list[object]] = {}
    for number, ask in enumerate(case.asks):
        found = _combinations(ask, kept)
        results: list[object] = [
            tuple(sorted([(f"{alias}_id", str(row.values["id"])) for alias, row in one.items()] + [("_ts", _time(_newest(one)))]))
            for one in found
        ]
        answers[f"joined{number}"] = sorted(results, key=str)
        world = World(ask.storing(), ask.equalities, kept, promises)
        answers[f"closing{number}"] = sorted(_closed(ask, world, found, rows), key=str)
        answers[f"told{number}"] = sorted(_told(ask, world, rows), key=str)
    if case.united:
        answers["united"] = sorted(_united([stream.name for stream in case.streams[:2]], rows, kept, promises), key=str)
    return answers, letters


def _united(parts: list[str], rows: list[Placed], kept: list[Placed], promises: list[Promise]) -> list[object]:
    """A value is finished for the union when all its parts have finished it."""
    finished: list[Promise] = []
    for column in COLUMNS:
        asks = [Ask([Reference("r0", part)], [], column) for part in parts]
        ends = [_ends(ask, World(ask.references, [], kept, promises), rows) for ask in asks]
        for value in ends[0].keys() & ends[1].keys():
            finished.append(Promise("u", ((column, value),), (max(end[value] for end in ends), LAST, 0)))

    def of_union(given: list[Placed]) -> list[Placed]:
        return [replace(row, stream="u") for row in given if row.stream in parts]

    ask = Ask([Reference("r0", "u")], [])
    world = World(ask.references, [], of_union(kept), finished)
    return _closed(ask, world, _combinations(ask, of_union(kept)), of_union(rows))


def _newest(combination: dict[str, Placed]) -> int:
    return max(row.ts for row in combination.values())


def _time(ts: int) -> str:
    return str(datetime(1970, 1, 1) + timedelta(microseconds=ts))


def _combinations(ask: Ask, rows: list[Placed]) -> list[dict[str, Placed]]:
    made: list[dict[str, Placed]] = [{}]
    for reference in ask.references:
        mine = [row for row in rows if row.stream == reference.stream and reference.filter(row.values)]
        made = [{**one, reference.alias: row} for one in made for row in mine if _holds(ask, {**one, reference.alias: row})]
    return [one for one in made if _inside(ask, rows, one)]


def _holds(ask: Ask, one: dict[str, Placed]) -> bool:
    for a, x, b, y in ask.equalities:
        if a in one and b in one:
            left, right = one[a].values[x], one[b].values[y]
            if left is None or left != right:
                return False
    return all(one[b].ts <= one[a].ts + seconds * SECOND for a, b, seconds in ask.bounds if a in one and b in one)


def _inside(ask: Ask, rows: list[Placed], one: dict[str, Placed]) -> bool:
    newest = max(one.values(), key=lambda row: row.place)
    for reference in ask.references:
        row = one[reference.alias]
        if reference.range is not None and newest.ts - row.ts > reference.range:
            return False
        if reference.rows is not None:
            after = [r for r in rows if r.stream == reference.stream and row.place < r.place <= newest.place]
            if len(after) >= reference.rows:
                return False
    return True


def _closed(ask: Ask, world: World, found: list[dict[str, Placed]], rows: list[Placed]) -> list[object]:
    column, first = ask.group_column, ask.references[0].alias
    read = {reference.stream for reference in ask.references}
    end = max((row.ts for row in rows if row.stream in read), default=0)
    instants = sorted({*(p.instant for p in world.promises), *_edges(world), end} | {0})
    instants = sorted({t for t in instants for t in (t, t + 1)})
    groups: dict[object, list[dict[str, Placed]]] = {}
    for one in found:
        groups.setdefault(one[first].values[column], []).append(one)
    answers: list[object] = []
    for value, members in groups.items():
        pins = {alias: {name: value} for alias, name in _class(ask, first, column)}
        last = world.last_instant(pins, instants) if value is not None else None
        if last is not None and last <= end:
            answers.append(tuple(sorted([("g", str(value)), ("n", str(len(members))), ("_ts", _time(last))])))
    return answers


def _told(ask: Ask, world: World, rows: list[Placed]) -> list[object]:
    return [tuple(sorted([("g", str(value)), ("_ts", _time(until))])) for value, until in _ends(ask, world, rows).items()]


def _ends(ask: Ask, world: World, rows: list[Placed]) -> dict[object, int]:
    """The values that are finished at the end, with the instants at which they are."""
    same = _class(ask, ask.references[0].alias, ask.group_column)
    read = {reference.stream for reference in ask.references}
    end = max((row.ts for row in rows if row.stream in read), default=0)
    seen: dict[object, int] = {}
    for alias, name in same:
        reference = world.reference(alias)
        for row in world.rows:
            if row.stream == reference.stream and row.values[name] is not None and reference.filter(row.values):
                seen[row.values[name]] = min(seen.get(row.values[name], row.ts), row.ts)
        for promise in world.promises:
            for column, value in promise.named if promise.stream == reference.stream and promise.instant <= end else ():
                if column == name:
                    seen[value] = min(seen.get(value, promise.instant), promise.instant)
    instants = sorted({t + d for t in (*(p.instant for p in world.promises), *_edges(world), end) for d in (0, 1)})
    found = {value: world.ends({alias: {name: value} for alias, name in same}, since, instants) for value, since in seen.items()}
    return {value: until for value, until in found.items() if until <= end}


def _edges(world: World) -> set[int]:
    found = set()
    for reference in world.references:
        mine = [row for row in world.rows if row.stream == reference.stream]
        found |= {row.ts for row in mine}
        if reference.range is not None:
            found |= {row.ts + reference.range for row in mine}
    return found


def _class(ask: Ask, alias: str, column: str) -> set[tuple[str, str]]:
    found = {(alias, column)}
    for _ in ask.equalities:
        for a, x, b, y in ask.equalities:
            if (a, x) in found or (b, y) in found:
                found |= {(a, x), (b, y)}
    return found
