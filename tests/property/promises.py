"""Random streams with punctuations: what a session is given, and what it has answered.

Answer   `random_case(rng)` draws streams, promises and queries; `declare` and `push` give them to a session, and
         `outcome` is what it says. Promises are drawn from the data: each says that a value has come for the last time.
         A world with lies says so too early.
Limits   Small: a handful of values, up to some twenty rows per stream.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from random import Random
from typing import Any

from eddyline import Session
from tests.oracle.promises import Equality, Promise, Reference, heartbeat_violations

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
    #: The punctuations that it gets from there stand at the instants in column `c`, or at the rows themselves where
    #: these are later.
    at: bool = False
    lateness: int = 0
    #: (how many rows come before it, instant): heartbeats between the rows, as the source has them.
    beats: list[tuple[int, int]] = field(default_factory=list)

    def brought(self) -> list[tuple[str, int]]:
        """Rows and heartbeats, as `oracle/promises.py` has them; a punctuation is neither."""
        found = []
        for at in range(len(self.rows) + 1):
            found += [("beat", instant) for place, instant in self.beats if place == at]
            found += [("over" if row["done"] else "row", int(str(row["ts"]))) for row in self.rows[at : at + 1]]
        return found

    def broken(self) -> set[int]:
        """The numbers of the rows that break a heartbeat."""
        refused, source = heartbeat_violations(self.brought()), self.brought()
        return {sum(kind != "beat" for kind, _ in source[:number]) for number in refused}


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
        parts += [
            f"{b}.ts <= {a}.ts {'-' if seconds < 0 else '+'} INTERVAL '{abs(seconds)} seconds'"
            for a, b, seconds in self.bounds
        ]
        return f" WHERE {' AND '.join(parts)}" if parts else ""

    def storing(self) -> list[Reference]:
        """The references with the windows that bounds between event times imply where nothing else is written."""
        aliases = [reference.alias for reference in self.references]
        later = {(b, a): seconds * SECOND for a, b, seconds in self.bounds}
        for reference in self.references:
            for other in aliases:
                if reference.range is not None:
                    later[other, reference.alias] = min(
                        later.get((other, reference.alias), reference.range), reference.range
                    )
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
            found.append(
                replace(reference, range=max(0, *(s for s in spans if s is not None))) if bounded else reference
            )
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
            columns = "id BIGINT, k BIGINT, j BIGINT, v DOUBLE, t STRING, c TIMESTAMP, done BOOLEAN, ts TIMESTAMP"
            found.append(f"CREATE STREAM {stream.name} ({columns}) WITH ({', '.join(options)})")
        for stream in self.streams:
            if stream.source is not None:
                found.append(
                    f"CREATE PUNCTUATION p{stream.name} ON {stream.name} (k) FROM {stream.source} (j){' AT c' * stream.at}"
                )
        if self.united:
            parts = " UNION ALL ".join(f"SELECT {', '.join(COLUMNS)} FROM {stream.name}" for stream in self.streams[:2])
            found.append(f"CREATE STREAM u WITH (propagate = 'on') AS {parts}")
        for name, condition, instant, *_ in self.said:
            found.append(f"PUNCTUATE {name} WHERE {condition} AT TIMESTAMP '1970-01-01 00:00:{instant // SECOND:02d}'")
        return found


def random_case(rng: Random, lies: bool = False, beats: bool = False) -> Case:
    """A case; with `beats`, heartbeats stand between the rows of some streams, which only programs that push can say of
    them."""
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
            # No two bounds contradict each other: of a join that no rows satisfy every instant is the last one.
            back = [(b, a, max(rng.randrange(0, 5), -seconds)) for a, b, seconds in ask.bounds]
            ask.bounds += [bound for bound in back if rng.random() < 0.5]
        case.asks.append(ask)
    for stream in case.streams:
        _promise(rng, case, stream, lies)
    case.united = count > 1 and rng.random() < 0.5
    for stream in case.streams if beats else ():
        if rng.random() < 0.7:
            _beat(rng, stream, lies)
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
        closes = max(0, now + rng.choice((-3, -1, 0, 2))) * SECOND if rng.randrange(NULL_EVERY) else None
        rows.append({**row, "c": closes, "done": False, "ts": now * SECOND})
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
    return references, [
        (f"r{place}", ("k", "j")[place % 2], f"r{place + 1}", ("k", "j")[place % 2]) for place in range(len(names) - 1)
    ]


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
            stream.at = rng.random() < 0.7


def _mark(rng: Random, stream: Stream, lies: bool) -> None:
    """Rows that end a value, somewhere after its last row, or before it."""
    for value in range(4):
        if rng.random() < 0.2:
            continue
        column = rng.choice(("k", "k", "j", "t"))
        wanted: object = f"x{value}" if column == "t" else value
        last = max((at for at, row in enumerate(stream.rows) if row[column] == wanted and not row["done"]), default=0)
        at = rng.randrange(0 if lies else last, len(stream.rows))
        empty = dict.fromkeys((*COLUMNS, "c"))
        stream.rows.insert(at + 1, {**empty, column: wanted, "done": True, "ts": stream.rows[at]["ts"]})


def _beat(rng: Random, stream: Stream, lies: bool) -> None:
    """Heartbeats, also after the last row; without lies no row after one has its time."""
    for _ in range(rng.randrange(1, 3)):
        before = rng.choice((rng.randrange(len(stream.rows) + 1), len(stream.rows)))
        came = max((int(str(row["ts"])) for row in stream.rows[:before]), default=0)
        instant = came + rng.choice((-1, 0, 1, 3, 6)) * SECOND
        # A punctuation whose place has passed when it comes stands at the frontier, which depends on epochs: there is
        # none here.
        later = [int(str(row["ts"])) for row in stream.rows[before:] if row["done"] or not lies]
        instant = min([instant, *(ts - 1 for ts in later)])
        stream.beats.append((before, instant))


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
        pattern, text = (
            ((column, lambda x, value=value: x in (value, value + 1)),),
            f"{column} IN ({value}, {value + 1})",
        )
    promise = Promise(stream.name, pattern, (0, 0, 0))  # type: ignore[arg-type]
    covered = [int(str(row["ts"])) for row in rows if promise.covers(row)]
    earliest = 0 if lies else max(covered, default=0) // SECOND
    newest = max(int(str(row["ts"])) for row in rows) // SECOND
    instant = rng.randrange(earliest, max(earliest, newest) + 2) * SECOND
    if (column, text) != ("v", "") and instant < 60 * SECOND:
        listed = ((column, value), (column, value + 1)) if " IN " in text else ()
        case.said.append((stream.name, text, instant, pattern, listed))  # type: ignore[arg-type]


# -- the engine


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
        first, end = epoch * size // case.epochs, (epoch + 1) * size // case.epochs
        beats = sorted(beat for beat in stream.beats if first < beat[0] <= end or beat[0] == epoch == 0)
        for place, instant in [*beats, (end, None)]:
            if first < place:
                session.push(stream.name, stream.rows[first:place])
                first = place
            if instant is not None:
                session.punctuate(
                    stream.name, f"ts <= TIMESTAMP '{datetime(1970, 1, 1) + timedelta(microseconds=instant)}'"
                )


def outcome(
    session: Session, case: Case
) -> tuple[dict[str, list[object]], dict[str, list[tuple[int, str]]], dict[str, Any]]:
    # Names with a bar in front are those of the parts of a union.
    queries = [(name, query) for name, query in session.queries.items() if not name.startswith("_")]
    found = {
        name: plain((query.punctuations() if name.startswith("told") else query.table()).to_pylist())
        for name, query in queries
    }
    dead = {
        s.name: sorted(
            (int(row["id"]), str(row["_reason"]).split(":")[0]) for row in session.dead_letters(s.name).to_pylist()
        )
        for s in case.streams
    }
    return found, dead, session.stats()


def plain(rows: list[dict[str, object]]) -> list[object]:
    return sorted((tuple(sorted((k, str(v)) for k, v in row.items() if k != "_op")) for row in rows), key=str)
