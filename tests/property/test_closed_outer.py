"""Outer joins, EXISTS and trees of them over streams with punctuations, which make rows certain before their windows
end.

Worlds have NULL keys, punctuations of CREATE PUNCTUATION with instants before and after their rows, heartbeats
anywhere, rows that break both, and epochs cut anywhere.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random

import pytest

from tests.oracle.expressions import Call, Col, Expression, Lit, render
from tests.oracle.intake import Row
from tests.oracle.outer import Closing, closed_at, kinds, tree_results
from tests.oracle.promises import end_of, heartbeat_violations
from tests.oracle.relational import Last, LastPer, Now, Query, Range, Reference, Unbounded, Window
from tests.property.embedded import run_embedded
from tests.property.specs import Case, StreamSpec, maybe_ended
from tests.property.test_aggregates import Blocks, restarted
from tests.property.texts import TextQuery
from tests.seeds import cases, first_seed
from tests.spark.sharded import run_sharded

BLOCK = 20
BLOCKS = cases(4)
FIRST = first_seed(1_960_000)
SECOND = 1_000_000
#: After all rows of an instant.
LAST = 1 << 60
WINDOWS: dict[str, Window] = {
    "": Unbounded(),
    " [RANGE 3 SECONDS]": Range(3 * SECOND),
    " [RANGE 8 SECONDS]": Range(8 * SECOND),
    " [ROWS 2]": Last(2),
    " [PARTITION BY k ROWS 2]": LastPer(("k",), 2),
    " [NOW]": Now(),
}
On = tuple[Expression, ...]


@dataclass(frozen=True)
class Event:
    """A row as its source has it, or, with `said`, a punctuation: `k` ends, or no row up to `instant` comes."""

    stream: str
    ts: int
    k: int | None = None
    j: int | None = None
    said: str = ""
    instant: int | None = None


@dataclass(frozen=True)
class World:
    """Streams a, b and c, of which some are punctuated, and p, whose rows end values of another one."""

    punctuated: frozenset[str]
    #: The stream that rows of p speak of.
    promised: str | None
    #: In the order of creation.
    order: str
    #: Punctuations are texts; otherwise a flag.
    texts: bool
    events: tuple[Event, ...]

    def place(self, at: int) -> tuple[int, int, int]:
        event = self.events[at]
        return event.ts, self.order.index(event.stream), at

    def closings(self) -> list[tuple[str, int, tuple[int, int, int]]]:
        """(stream, value of k, place) of all punctuations."""
        found = []
        for at, event in enumerate(self.events):
            if event.said == "over":
                found.append((event.stream, event.k, self.place(at)))
            elif (
                event.stream == "p" and self.promised is not None and event.instant is not None and event.k is not None
            ):
                later = event.instant >= event.ts
                found.append((self.promised, event.k, (event.instant, LAST, 0) if later else self.place(at)))
        return found  # type: ignore[return-value]

    def is_taken(self, at: int) -> bool:
        """Whether a row breaks no punctuation that stands before it, and no heartbeat that comes before it in the
        source."""
        event = self.events[at]
        closed = any(s == event.stream and k == event.k and place < self.place(at) for s, k, place in self.closings())
        return not closed and sum(e.stream == event.stream for e in self.events[:at]) not in heartbeat_violations(
            self.source(event.stream)
        )

    def source(self, stream: str) -> list[tuple[str, int]]:
        """What a stream brings, as `oracle/promises.py` has it."""
        mine = [e for e in self.events if e.stream == stream]
        return [("beat", e.instant or 0) if e.said == "beat" else (e.said or "row", e.ts) for e in mine]

    def rows(self) -> list[Row]:
        chosen = [at for at, e in enumerate(self.events) if e.stream != "p" and not e.said and self.is_taken(at)]
        chosen.sort(key=self.place)
        return [
            Row(e.stream, {"k": e.k, "j": e.j}, e.ts, n, 0, 0) for n, e in enumerate(self.events[at] for at in chosen)
        ]

    def heard(self) -> dict[str, int]:
        """How far each stream has come."""
        come = {stream: [one for one in self.source(stream) if one[0] != "over"] for stream in self.order}
        return {stream: end_of(mine) for stream, mine in come.items() if mine}

    def made(self, event: Event) -> tuple[object, ...]:
        """An event as its stream has it."""
        if event.stream == "p":
            return event.k, event.instant, event.ts
        mark: object = None
        if event.said == "over":
            mark = f"k = {event.k}" if self.texts else True
        elif event.said == "beat":
            mark = f"ts <= TIMESTAMP '1970-01-01 00:{(event.instant or 0) // (60 * SECOND):02d}:{(event.instant or 0) // SECOND % 60:02d}'"
        return event.k, event.j, mark, event.ts

    def case(self, text: str, cuts: list[int]) -> Case:
        """The events cut into epochs at these numbers."""
        epochs = []
        for low, high in zip([0, *cuts], [*cuts, len(self.events)], strict=True):
            part = self.events[low:high]
            epochs.append(tuple((s, tuple(self.made(e) for e in part if e.stream == s)) for s in self.order))
        columns = (("k", "INT"), ("j", "INT"), ("done", "STRING" if self.texts else "BOOLEAN"), ("ts", "TIMESTAMP"))
        streams = [StreamSpec(s, columns, punctuation="done" if s in self.punctuated else None) for s in "abc"]
        if self.promised is not None:
            streams.insert(
                self.order.index("p"), StreamSpec("p", (("k", "INT"), ("closes", "TIMESTAMP"), ("ts", "TIMESTAMP")))
            )
        before = (
            () if self.promised is None else (f"CREATE PUNCTUATION ends ON {self.promised} (k) FROM p (k) AT closes",)
        )
        return Case(tuple(streams), (TextQuery("q", text),), tuple(epochs), before=before)  # type: ignore[arg-type]


def drawn(rng: Random) -> World:
    punctuated = frozenset(s for s in "abc" if rng.random() < 0.8)
    promised = rng.choice("abc") if rng.random() < 0.4 else None
    texts = rng.random() < 0.5
    found: list[Event] = []
    now = 0
    heard = dict.fromkeys("abc", -1)
    order = "abc" if promised is None else rng.choice(("pabc", "abcp", "apbc"))
    for _ in range(rng.randint(4, 32)):
        now += rng.choice((0, 1, 1, 2)) * SECOND
        stream = rng.choice(order)
        k = rng.randint(0, 3) if rng.random() < 0.85 else None
        if stream == "p":
            closes = None if rng.random() < 0.1 else max(0, now + rng.choice((-4, -1, -1, 0, 2)) * SECOND)
            found.append(Event("p", now, k, instant=closes))
        elif stream in punctuated and texts and rng.random() < 0.15:
            instant = max(0, now + rng.choice((-1, 0, 1, 4)) * SECOND)
            found.append(Event(stream, rng.choice((now, now, 0)), said="beat", instant=instant))
            heard[stream] = max(heard[stream], instant)
        elif stream in punctuated and k is not None and now > heard[stream] and rng.random() < 0.3:
            # A punctuation that comes when its place has passed stands at the frontier, which depends on epochs: there
            # is none here.
            found.append(Event(stream, now, k, said="over"))
        else:
            found.append(Event(stream, now, k, rng.randint(0, 2) if rng.random() < 0.9 else None))
    return World(punctuated, promised, order, texts, tuple(found))


def random_on(rng: Random, alias: str, before: list[str]) -> On:
    other = rng.choice(before)
    column = rng.choice("kkkj")
    found: list[Expression] = [Call("=", (Col(alias, column, "INT"), Col(other, column, "INT")))]
    if rng.random() < 0.3:
        found.append(Call(">", (Col(alias, "j", "INT"), Lit(0, "INT"))))
    return tuple(found)


def random_joins(
    rng: Random, punctuated: frozenset[str]
) -> tuple[Query, dict[str, tuple[str, On]], list[tuple[str, Reference, On]], str]:
    """Joins whose rows are certain at some time: the query, how it is joined, its tests and its text."""
    while True:
        names = ["a", "b", "c"][: rng.choice((2, 3, 3))]
        windows = {alias: rng.choice(list(WINDOWS)) for alias in (*names, "e")}
        references = {
            alias: Reference(alias, "b" if alias == "e" else alias, WINDOWS[windows[alias]]) for alias in windows
        }
        joins = {
            a: (rng.choice(("LEFT", "RIGHT", "FULL", "INNER")), random_on(rng, a, names[:at]))
            for at, a in enumerate(names)
            if at
        }
        tests = (
            [(rng.choice(("EXISTS", "NOT EXISTS")), references["e"], random_on(rng, "e", ["a"]))]
            if rng.random() < 0.3
            else []
        )
        made = kinds("a", joins)
        always = frozenset[str].intersection(*(here for here, _ in made))
        lacks = {lack for _, lacks in made for lack in lacks} | {("a", frozenset("e"), on) for _, _, on in tests}
        if not lacks or (tests and "a" not in always):
            continue
        sources = {alias: r.source for alias, r in references.items()}
        closable = [(s, "k", 1, 0) for s in punctuated]
        probe = Row("", {"k": 1, "j": 1}, 0, 0, 0, 0)
        if any(
            isinstance(references[about].window, Unbounded)
            and closed_at((about, others, on), sources, probe, closable) is None
            for about, others, on in lacks
        ):
            continue
        outputs = tuple((f"{alias}_{column}", Col(alias, column, "INT")) for alias in names for column in "kj")
        text = f"SELECT {', '.join(f'{render(e)} AS {name}' for name, e in outputs)} FROM a{windows['a']}"
        for alias, (join, on) in joins.items():
            text += f" {join} JOIN {alias}{windows[alias]} ON {' AND '.join(map(render, on))}"
        where = [
            f"{which} (SELECT 1 FROM b{windows['e']} e WHERE {' AND '.join(map(render, on))})" for which, _, on in tests
        ]
        text += f" WHERE {' AND '.join(where)}" if where else ""
        return Query(tuple(references[a] for a in names), (), outputs), joins, tests, text


@pytest.mark.property
@pytest.mark.parametrize("block", range(BLOCKS))
def test_punctuations_make_rows_certain(block: int) -> None:
    for seed in range(FIRST + block * BLOCK, FIRST + (block + 1) * BLOCK):
        rng = Random(seed)
        world = drawn(rng)
        declared = world.punctuated | ({world.promised} if world.promised else set())
        query, joins, tests, text = random_joins(rng, declared)
        closings: list[Closing] = [(s, "k", k, place[0]) for s, k, place in world.closings()]
        columns = dict.fromkeys("abc", "kj")
        rows, heard = world.rows(), world.heard()
        wanted, at_end = (
            tree_results(query, joins, rows, columns, tests, closings, declared, heard, ended=ended)
            for ended in (False, True)
        )
        case = world.case(text, sorted(rng.randint(0, len(world.events)) for _ in range(rng.choice((0, 1, 2, 4, 12)))))
        blocks = Blocks()
        between = (lambda session: restarted(session, blocks)) if rng.random() < 0.4 else None  # noqa: B023
        final = maybe_ended(case, seed)
        outcomes = [(run_embedded(final, between), at_end if final.final else wanted)]
        outcomes += [(run_sharded(case, rng.choice((1, 3)), seed), wanted)] if rng.random() < 0.3 else []
        for outcome, right in outcomes:
            expected = Counter((ts, *values) for ts, values in right)
            found = Counter(
                (row["_ts"], *(v for name, v in row.items() if name != "_ts")) for row in outcome.results["q"]
            )
            assert found == expected, f"{seed}: {text}\nmissing {expected - found}\nextra {found - expected}\n{world}"
            stamps = [row["_ts"] for row in outcome.results["q"]]
            assert stamps == sorted(stamps)
