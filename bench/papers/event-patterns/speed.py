"""What an EVENT query costs beside the same pattern as a self-join, beside a filter, and in a crowd.

Answer   CPU seconds of whole runs over the orders generator (reading included), medians of contenders that take turns
         in one process: a sequence as an EVENT query, without and WITHIN the join's windows, as a self-join on the
         trace and a plain filter; 1,000 patterns beside one; `prune` and `check` at 0 and 90 % failing; a stream ten
         times as long beside one. Ratios are given of the medians, and as the median of the ratios of single rounds
         (`by round`), which a machine that grows busier changes less.
Limits   CPU time still depends on what else the machine does; read ratios, not seconds.
Reading  `python bench/papers/event-patterns/speed.py [--events N] [--repeats N] [--patterns N] [--parts
         sequence,crowd,settings,length]`
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time

from counts import CONSTRAINTS, QUERIES, made_orders

from eddyline.session import Session

_BOOK = "FROM orders TYPE type PARTITION BY trace_id RETURN trace_id"
SEQUENCE = f"CREATE QUERY q AS {QUERIES['SEQ']} {_BOOK};"
#: A trace lasts 110 seconds of event time at these rates.
WITHIN = SEQUENCE.replace(" RETURN", " WITHIN 120 SECONDS RETURN")
JOIN = """CREATE QUERY q AS SELECT a.trace_id FROM orders [RANGE 120 SECONDS] a, orders [RANGE 120 SECONDS] b, orders [RANGE 120 SECONDS] c
  WHERE a.type = 'CheckInventory' AND b.type = 'UseRemoteStock' AND c.type = 'GenerateInvoice'
  AND a.trace_id = b.trace_id AND b.trace_id = c.trace_id AND a.ts < b.ts AND b.ts < c.ts;"""
FILTER = "CREATE QUERY q AS SELECT trace_id FROM orders WHERE type = 'UseRemoteStock';"


def crowd(count: int) -> str:
    """Patterns of which few match, each with conditions of its own."""
    return "".join(
        f"CREATE QUERY q{n} AS "
        f"EVENT SEQ(OrderFromSupplier[price = {n % 400}], GenerateQuote[quantity = {n * 7 % 400}], FinishOrder) {_BOOK};"
        for n in range(count)
    )


def cpu(stream: str, text: str, setting: str = "off") -> tuple[float, int]:
    """Seconds, and results of all queries."""
    with Session(keep_results=False) as session:
        session.execute(stream)
        session.set("constraints", setting)
        session.execute(text)
        began = process_time()
        session.run(final=False)
        return process_time() - began, sum(session.stats()["results"].values())


Turns = Mapping[str, list[float]]


def in_turns(contenders: Mapping[str, tuple[str, str, str]], repeats: int) -> Turns:
    """Seconds of every turn; every other round goes backwards, so that none always follows the same one."""
    for contender in contenders.values():
        cpu(*contender)
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(repeats):
        for name in list(contenders)[:: -1 if turn % 2 else 1]:
            seconds[name].append(cpu(*contenders[name])[0])
    return seconds


def put_out(subject: str, turns: Turns, pairs: Iterable[tuple[str, str]]) -> None:
    """One line: medians, and per pair the ratio of the medians and the median of the ratios."""
    found = {name: median(seconds) for name, seconds in turns.items()}
    ratios = {f"{a}/{b}": found[a] / found[b] for a, b in pairs}
    rounds = {f"{a}/{b} by round": median(x / y for x, y in zip(turns[a], turns[b], strict=True)) for a, b in pairs}
    print(
        json.dumps(
            {"subject": subject, **{name: round(figure, 3) for name, figure in (found | ratios | rounds).items()}}
        ),
        flush=True,
    )


def sequence(events: int, repeats: int) -> None:
    """Orders of 11 events: with more, fewer rows are of a pattern, which favours EVENT."""
    with TemporaryDirectory() as folder:
        stream = "\n".join(made_orders(folder, events, 0.5, checking=0, handling=0))
        assert cpu(stream, SEQUENCE)[1] == cpu(stream, WITHIN)[1] == cpu(stream, JOIN)[1]
        texts = {"event": SEQUENCE, "within": WITHIN, "join": JOIN, "filter": FILTER}
        found = in_turns({name: (stream, text, "off") for name, text in texts.items()}, repeats)
        put_out("sequence", found, [(a, b) for a in ("event", "within") for b in ("join", "filter")])


def patterns(events: int, repeats: int, count: int) -> None:
    with TemporaryDirectory() as folder:
        stream = "\n".join(made_orders(folder, events, 0.5, checking=0, handling=0))
        found = in_turns(
            {"one": (stream, crowd(1), "off"), "many": (stream, crowd(count), "off")}, max(1, repeats // 2)
        )
        put_out(f"{count} patterns", found, [("many", "one")])


def settings(events: int, repeats: int) -> None:
    for ratio in (0, 90):
        with TemporaryDirectory() as folder:
            early, late = ("\n".join(made_orders(f"{folder}/{share}", events, share)) for share in (ratio / 100, 0.0))
            for name, event in QUERIES.items():
                stream = late if name == "SEQ late" else early
                bounds = {
                    "quote": 200 if name == "AND" else round(400 * (ratio / 100) ** (1 / 3)),
                    "late": round(400 * ratio / 100),
                }
                text = f"{CONSTRAINTS} CREATE QUERY q AS {event.format(**bounds)} {_BOOK};"
                found = in_turns({setting: (stream, text, setting) for setting in ("check", "prune")}, repeats)
                put_out(f"{name} at {ratio} %", found, [("prune", "check")])


def length(events: int, repeats: int) -> None:
    with TemporaryDirectory() as folder:
        text = f"{CONSTRAINTS} {SEQUENCE}"
        streams = {f"{times}x": "\n".join(made_orders(f"{folder}/{times}", times * events, 0.9)) for times in (1, 10)}
        found = in_turns({name: (stream, text, "prune") for name, stream in streams.items()}, max(1, repeats // 2))
        put_out("length", found, [("10x", "1x")])


def main() -> None:
    parser = argparse.ArgumentParser(description="event patterns: CPU time")
    parser.add_argument("--events", type=int, default=400_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--patterns", type=int, default=1_000)
    parser.add_argument("--parts", default="sequence,crowd,settings,length", help="which of these to measure")
    args = parser.parse_args()
    parts = {
        "sequence": lambda: sequence(args.events, args.repeats),
        "crowd": lambda: patterns(args.events, args.repeats, args.patterns),
        "settings": lambda: settings(args.events, args.repeats),
        "length": lambda: length(args.events, args.repeats),
    }
    for part in args.parts.split(","):
        parts[part]()


if __name__ == "__main__":
    main()
