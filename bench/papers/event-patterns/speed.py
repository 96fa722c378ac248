"""What an EVENT query costs beside the same pattern as a self-join, beside a filter, and in a crowd.

Answer   CPU seconds of whole runs over the orders generator (reading included), medians of contenders that take turns in one process: a
         sequence as an EVENT query, without and WITHIN the join's windows, as a self-join on the trace and a plain filter; `prune` and
         `check` at 0 and 90 % failing; 1,000 patterns beside one; a stream ten times as long beside one.
Limits   CPU time still depends on what else the machine does; read ratios, not seconds.
Reading  `python bench/papers/event-patterns/speed.py [--events N] [--repeats N] [--patterns N]`
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time

from counts import CONSTRAINTS, QUERIES

from eddyline.connectors.draws import Shape
from eddyline.connectors.generate import orders
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
        session.run(once=True)
        return process_time() - began, sum(session.stats()["results"].values())


def in_turns(contenders: Mapping[str, tuple[str, str, str]], repeats: int) -> dict[str, float]:
    for contender in contenders.values():
        cpu(*contender)
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(repeats):
        for name, contender in contenders.items():
            seconds[name].append(cpu(*contender)[0])
    return {name: median(found) for name, found in seconds.items()}


def told(subject: str, figures: Mapping[str, float]) -> None:
    print(json.dumps({"subject": subject, **{name: round(figure, 3) for name, figure in figures.items()}}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="event patterns: CPU time")
    parser.add_argument("--events", type=int, default=400_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--patterns", type=int, default=1_000)
    parser.add_argument("--long", action="store_true", help="also ten times as many events")
    args = parser.parse_args()
    with TemporaryDirectory() as folder:
        made = orders(
            folder, Shape(100.0, args.events / 100, 0), concurrent=1_000, quotes=3, local=0.5, cancelled=0.0, rejected=0.0, values=400
        )
        stream = "\n".join(made.statements)
        assert cpu(stream, SEQUENCE)[1] == cpu(stream, WITHIN)[1] == cpu(stream, JOIN)[1]
        texts = {"event": SEQUENCE, "within": WITHIN, "join": JOIN, "filter": FILTER}
        found = in_turns({name: (stream, text, "off") for name, text in texts.items()}, args.repeats)
        ratios = {f"{a}/{b}": found[a] / found[b] for a in ("event", "within") for b in ("join", "filter")}
        told("sequence", found | ratios)
        many = {"one": (stream, crowd(1), "off"), "many": (stream, crowd(args.patterns), "off")}
        found = in_turns(many, max(1, args.repeats // 2))
        told(f"{args.patterns} patterns", found | {"many/one": found["many"] / found["one"]})
    for ratio in (0, 90):
        with TemporaryDirectory() as folder:
            shape = Shape(100.0, args.events / 100, 0)
            made = orders(folder, shape, concurrent=1_000, quotes=3, local=ratio / 100, cancelled=0.0, rejected=0.0, values=400)
            stream = "\n".join(made.statements)
            for name, event in QUERIES.items():
                text = f"{CONSTRAINTS} CREATE QUERY q AS {event.format(quote=200, late=200)} {_BOOK};"
                found = in_turns({setting: (stream, text, setting) for setting in ("check", "prune")}, args.repeats)
                told(f"{name} at {ratio} %", found | {"prune/check": found["prune"] / found["check"]})
    if args.long:
        sizes = {}
        for times in (1, 10):
            with TemporaryDirectory() as folder:
                made = orders(
                    folder, Shape(100.0, times * args.events / 100, 0), concurrent=1_000, quotes=3, local=0.9, cancelled=0.0, rejected=0.0
                )
                text = f"{CONSTRAINTS} {SEQUENCE}"
                sizes[f"{times}x"] = in_turns({"prune": ("\n".join(made.statements), text, "prune")}, max(1, args.repeats // 2))["prune"]
        told("length", sizes | {"10x/1x": sizes["10x"] / sizes["1x"]})


if __name__ == "__main__":
    main()
