"""One store per stream: queries over different sets of streams read it, each up to a position of its own."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from random import Random

import pyarrow as pa
import pytest

from eddyline.language import bind_script
from eddyline.runtime.engine.epoch import Arrival, Epoch
from eddyline.runtime.engine.pipeline import Pipeline
from eddyline.runtime.recovery.snapshot import restore, saved_queries, take_snapshot
from tests.seeds import cases, first_seed

SECOND = 1_000_000
NAMES = "abcd"
FIRST = first_seed(0)
CASES = cases(25)


@dataclass
class Event:
    """What happens between two epochs, and the epoch."""

    arrivals: dict[str, list[tuple[int, int, int]]]
    idle: frozenset[str] = frozenset()
    closing: bool = False
    add: list[str] = field(default_factory=list)
    drop: list[str] = field(default_factory=list)
    restart: bool = False


def arrival(rows: list[tuple[int, int, int]]) -> Arrival:
    columns = {"k": pa.array([k for k, _, _ in rows], pa.int64()), "n": pa.array([n for _, n, _ in rows], pa.int64())}
    return Arrival(pa.table({**columns, "ts": pa.array([ts for _, _, ts in rows], pa.timestamp("us"))}))


class Played:
    def __init__(self, script: str, restarts: bool = True) -> None:
        self.job = bind_script(script)
        self.queries = {query.name: query for query in self.job.queries}
        self.pipeline = Pipeline(self.job.streams)
        self.restarts = restarts
        self.blocks: dict[str, pa.Table] = {}
        self.delivered: dict[str, list[list[str]]] = {name: [] for name in self.queries}

    def run(self, events: list[Event], only: str | None = None) -> dict[str, list[list[str]]]:
        for event in events:
            for name in event.drop:
                if name in self.pipeline.queries and only in (None, name):
                    self.pipeline.stop_query(name, self.pipeline.newest(self.queries[name]))
            for name in event.add:
                if only in (None, name):
                    newest = self.pipeline.newest(self.queries[name])
                    self.pipeline.add_query(self.queries[name], *([] if newest is None else [newest]))
            if event.restart and self.restarts:
                self.open_again()
            arrivals = {name: arrival(rows) for name, rows in event.arrivals.items()}
            outcome = self.pipeline.step(Epoch(arrivals, idle=event.idle, closing=event.closing))
            if self.restarts:
                self.save()
            for name, found in self.delivered.items():
                found.append(sorted(str(row) for table in outcome.results.get(name, ()) for row in table.to_pylist()))
        return self.delivered

    def save(self) -> None:
        taken = take_snapshot(self.pipeline)
        self.header = json.dumps(taken.header)
        self.blocks = {
            name: self.blocks[name] if name in self.blocks else block() for name, block in taken.blocks.items()
        }

    def open_again(self) -> None:
        self.save()
        header = json.loads(self.header)
        self.pipeline = Pipeline(self.job.streams)
        for name, saved in saved_queries(header).items():
            self.pipeline.add_query(self.queries[name], saved["start"], saved["slot"])
        restore(self.pipeline, header, self.blocks.__getitem__)

    def stored(self) -> dict[str, int]:
        return {stream.name: stream.store.live for stream in self.pipeline.stores()}


STREAMS = "".join(f"CREATE STREAM {name} (k BIGINT, n BIGINT, ts TIMESTAMP) WITH (time='ts'{{}});" for name in "abc")
PAIRS = "CREATE QUERY ab WITH (jit='off') AS SELECT a.n, b.n AS m FROM a [RANGE 60 SECONDS], b [RANGE 60 SECONDS] WHERE a.k = b.k;"
TRIPLES = """CREATE QUERY abc WITH (plan='((a b) c)', jit='off') AS SELECT a.n FROM a [RANGE 60 SECONDS], b [RANGE 60 SECONDS],
    c [RANGE 60 SECONDS] WHERE a.k = b.k AND b.k = c.k;"""


def every_second(first: int, last: int) -> list[tuple[int, int, int]]:
    return [(second % 5, second, second * SECOND) for second in range(first, last)]


def probes(played: Played) -> tuple[int, int]:
    figures = [unit.report() for unit in played.pipeline.kinds.units()]
    return sum(f.probes for f in figures), sum(f.probes_shared for f in figures)


@pytest.mark.parametrize("behind", [0, 7])
def test_two_sets_of_streams_store_rows_once_and_share_probes(behind: int) -> None:
    """The third stream may be some seconds behind: pairs that the first query finds wait for the second."""
    both, pairs, triples = (Played(STREAMS.format("", "", "") + text) for text in (PAIRS + TRIPLES, PAIRS, TRIPLES))
    for played in (both, pairs, triples):
        events = [
            Event(
                {
                    "a": every_second(at, at + 10),
                    "b": every_second(at, at + 10),
                    "c": every_second(max(at - behind, 0), at + 10 - behind),
                }
            )
            for at in range(0, 300, 10)
        ]
        events[0].add = list(played.queries)
        played.run(events)
    assert both.delivered["ab"] == pairs.delivered["ab"] and both.delivered["abc"] == triples.delivered["abc"]
    # The slower query needs the rows that it has not reached, and those that these meet.
    assert both.stored() == {"a": 60 + behind, "b": 60 + behind, "c": 60} and triples.stored() == dict.fromkeys(
        "abc", 60
    )
    rows = (
        both.pipeline.timelines[frozenset("ab")].queues["a"].released
        + both.pipeline.timelines[frozenset("ab")].queues["b"].released
    )
    late = sum(
        queue.released for name, queue in both.pipeline.timelines[frozenset("abc")].queues.items() if name != "c"
    )
    apart = probes(pairs)[0] + probes(triples)[0]
    assert probes(both) == (apart - late, rows + late)


def test_a_slow_query_holds_rows_and_gives_them_back() -> None:
    played = Played(STREAMS.format("", "", "") + PAIRS + TRIPLES)
    start = Event({name: every_second(0, 100) for name in "abc"}, add=["ab", "abc"])
    played.run([start, Event({name: every_second(100, 300) for name in "ab"})])
    assert played.stored() == {"a": 260, "b": 260, "c": 60}
    played.open_again()
    played.run([Event({"c": every_second(100, 300)})])
    assert played.stored() == {"a": 60, "b": 60, "c": 60}
    played.pipeline.drop_query("abc")
    assert list(played.pipeline.supplies["a"].state.readers) == ["a+b"]


def test_a_row_for_one_set_only_is_put_in_its_place() -> None:
    """b is idle and has rows within its lateness: ab passes them, bc does not; then b speaks of a time between them."""
    script = STREAMS.format("", ", lateness='30 seconds', idle='1 second', sequence='n'", "") + PAIRS
    script += "CREATE QUERY bc AS SELECT b.n FROM b [ROWS 2], c [UNBOUNDED] WHERE c.k = 9 AND b.n <> 77;"
    events = [
        Event({"a": [(0, 0, 0)], "b": [(0, 5, 40 * SECOND), (0, 7, 50 * SECOND)], "c": [(9, 0, 0)]}, add=["ab", "bc"]),
        Event({"a": [(0, 1, 60 * SECOND)]}, idle=frozenset("b")),
        Event({"b": [(0, 6, 40 * SECOND), (0, 4, 40 * SECOND), (0, 77, 45 * SECOND)]}),
        Event({"b": [(0, 8, 100 * SECOND)], "c": [(9, 1, 48 * SECOND)]}),
        Event({}, closing=True),
    ]
    together = Played(script, restarts=False)
    together.run(events[:3])
    state = together.pipeline.supplies["b"].state
    assert state.store.gather("n", state.store.ids()).to_pylist() == [4, 5, 6, 77, 7], "by time, then by sequence"
    together.run(events[3:])
    for name in ("ab", "bc"):
        assert together.delivered[name] == Played(script, restarts=False).run(events, name)[name]
    # Of the rows of b that count for bc, the last two before c's row at 48 are 6 and 77; ab has never seen them.
    assert [row for epoch in together.delivered["bc"] for row in epoch if "'n': 6," in row and "48" in row]
    assert not any("'m': 6," in row for epoch in together.delivered["ab"] for row in epoch)


def random_script(rng: Random) -> tuple[str, list[str]]:
    lines = []
    for name in NAMES:
        options = ["time='ts'", f"lateness='{rng.choice((0, 0, 4, 9))} seconds'", "idle='1 second'"]
        options += ["sequence='n'"] if rng.random() < 0.3 else []
        lines.append(f"CREATE STREAM {name} (k BIGINT, n BIGINT, ts TIMESTAMP) WITH ({', '.join(options)});")
    windows = ("RANGE 9 SECONDS", "RANGE 25 SECONDS", "ROWS 3", "ROWS 7", "UNBOUNDED")
    names = []
    for number in range(rng.randint(3, 6)):
        sources = [rng.choice(NAMES) for _ in range(rng.choice((1, 2, 2, 2, 3, 3)))]
        seats = ", ".join(f"{source} [{rng.choice(windows)}] r{at}" for at, source in enumerate(sources))
        joins = [f"r{at}.k = r{at + 1}.k" for at in range(len(sources) - 1)]
        joins += ["r0.n < 70"] if rng.random() < 0.4 else []
        joins += [f"r0.n < r{len(sources) - 1}.n"] if rng.random() < 0.3 and len(sources) > 1 else []
        selected = (
            "COUNT(*) AS n, MAX(r0.n) AS m"
            if rng.random() < 0.25
            else ", ".join(f"r{at}.n AS n{at}" for at in range(len(sources)))
        )
        options = [f"plan='{rng.choice(('mjoin', 'auto', '((r0 r1) r2)') if len(sources) == 3 else ('auto',))}'"]
        options += [f"jit='{rng.choice(('off', 'exact', 'bloom'))}'", f"share='{rng.choice(('on', 'on', 'off'))}'"]
        where = f" WHERE {' AND '.join(joins)}" if joins else ""
        lines.append(f"CREATE QUERY q{number} WITH ({', '.join(options)}) AS SELECT {selected} FROM {seats}{where};")
        names.append(f"q{number}")
    return "\n".join(lines), names


def random_events(rng: Random, queries: list[str]) -> list[Event]:
    moment = dict.fromkeys(NAMES, 0.0)
    events: list[Event] = []
    number = 0
    for at in range(rng.randint(8, 20)):
        arrivals = {}
        for name in NAMES:
            if rng.random() < 0.6:
                moment[name] = max(moment[name], max(moment.values()) - rng.choice((0, 5, 20))) + rng.random() * 4
                times = [
                    max(moment[name] - rng.random() * rng.choice((0, 3, 8)), 0.0) for _ in range(rng.randint(1, 5))
                ]
                # Whole seconds now and then: rows of equal time.
                stamps = [int(t) * SECOND if rng.random() < 0.5 else int(t * SECOND) for t in times]
                numbers = [number + i for i in rng.sample(range(len(stamps)), len(stamps))]
                number += len(stamps)
                arrivals[name] = [(rng.randint(1, 3), n % 97, ts) for n, ts in zip(numbers, stamps, strict=True)]
        idle = frozenset(name for name in NAMES if name not in arrivals and rng.random() < 0.4)
        event = Event(arrivals, idle, closing=rng.random() < 0.05, restart=rng.random() < 0.15)
        event.add = [
            name
            for name in queries
            if name not in {n for e in events for n in e.add} and (at == 0 or rng.random() < 0.1)
        ]
        event.add = [name for name in event.add if at or rng.random() < 0.7]
        events.append(event)
        known = [n for e in events[:-1] for n in e.add if not any(n in e.drop for e in events)]
        event.drop = [name for name in known if rng.random() < 0.03]
    return [*events, Event({}, closing=True)]


@pytest.mark.parametrize("seed", range(FIRST, FIRST + CASES))
def test_each_query_delivers_in_every_epoch_what_it_delivers_alone(seed: int) -> None:
    """Streams pause, fall idle, end and come back; queries come and go; the pipeline is written down and opened
    again."""
    rng = Random(seed)
    script, names = random_script(rng)
    events = random_events(rng, names)
    together = Played(script).run(events)
    for name in names:
        alone = Played(script, restarts=False).run(events, name)
        assert together[name] == alone[name], (name, script)
