"""`eddyline generate auction|sensors|clique|orders|nexmark`: synthetic streams as parquet files.

Answer   Writes the files and prints the statements that read them, ready to paste into a job file.
State    None.
Limits   Files of an earlier call in the same folder are replaced.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from eddyline.connectors.generators import generate
from eddyline.connectors.generators.draws import GeneratorShape

#: Per kind its function, its help, and the help of its own options, whose types and defaults are those of the function.
KINDS: dict[str, tuple[Callable[..., generate.Generated], str, dict[str, str]]] = {
    "auction": (
        generate.auction,
        "auctions with closing times, bids, and a table of categories",
        {
            "bids_per_auction": "bids per auction, on average; --rate counts bids",
            "open_seconds": "how long an auction is open, on average",
            "categories": "different categories",
            "sellers": "different sellers",
            "bidders": "different bidders",
        },
    ),
    "sensors": (generate.sensors, "temperature, humidity and light per location", {"locations": "different locations"}),
    "clique": (
        generate.clique,
        "sources a, b, c, … with one column per pair of them",
        {
            "sources": "how many sources",
            "dmax": "values are uniform from 1 to this",
            "last_factor": "the last source draws from a domain larger by this factor",
        },
    ),
    "orders": (
        generate.orders,
        "events of the order-fulfilment workflow, many traces interleaved",
        {
            "concurrent": "traces open at a time",
            "quotes": "repetitions of GenerateQuote",
            "local": "share of traces that use local stock: patterns with remote stock fail there",
            "cancelled": "share of traces that end with CancelOrder",
            "rejected": "share of traces that are rejected at once",
            "broken": "share of traces that break the order of quotes",
            "checking": "tasks between CheckInventory and the choice of a stock, at most 2",
            "handling": "tasks between the branches and the end, at most 9",
            "values": "different values of each attribute",
        },
    ),
    "nexmark": (
        generate.nexmark,
        "persons, auctions and bids of NEXMark, 1 : 3 : 46, with hot keys, and the table side",
        {
            "hot_bids": "share of bids on hot auctions",
            "extra": "length of the filling texts",
            "open_seconds": "how long an auction is open, on average",
            "side_rows": "rows of the table side",
        },
    ),
}
#: Rate and seconds of a kind whose defaults differ from those of the others.
_RATES = {"clique": (1.0, 18_000.0)}


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser("generate", help="write synthetic streams", description=__doc__.splitlines()[0])
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)
    for kind, (function, text, options) in KINDS.items():
        with_defaults = argparse.ArgumentDefaultsHelpFormatter
        one = kinds.add_parser(kind, help=text, description=text, formatter_class=with_defaults)
        rate, seconds = _RATES.get(kind, (100.0, 600.0))
        one.add_argument("--out", required=True, metavar="DIR", help="folder for the files", default=argparse.SUPPRESS)
        one.add_argument("--rate", type=float, default=rate, help="rows per second of event time, per stream")
        one.add_argument("--seconds", type=float, default=seconds, help="length in event time")
        one.add_argument("--seed", type=int, default=0, help="the same seed gives the same rows")
        one.add_argument("--skew", type=float, default=0.0, help="Zipf exponent of keys; 0: uniform")
        one.add_argument(
            "--disorder", type=float, default=0.0, help="rows arrive up to this many seconds behind the newest"
        )
        one.add_argument("--late", type=float, default=0.0, help="share of rows that arrive later than that")
        one.add_argument("--burst", type=float, help="Pareto shape of the gaps between rows, above 1; none: even gaps")
        one.add_argument("--files", type=int, default=1, help="files per stream")
        for name, default in generate.options_of(function).items():
            one.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default, help=options[name])
        one.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    function, _, options = KINDS[args.kind]
    shape = GeneratorShape(
        args.rate, args.seconds, args.seed, args.skew, args.disorder, args.late, args.burst, args.files
    )
    done = function(args.out, shape, **{name: getattr(args, name) for name in options})
    for name, count in done.rows.items():
        print(f"{name}: {count:,} rows in {done.paths[name]}", file=sys.stderr)
    print("\n".join(done.statements))
    return 0
