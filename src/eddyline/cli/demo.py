"""`eddyline demo`: auction streams, several queries, results: everything a first look needs."""

from __future__ import annotations

import argparse
import os
import shutil

from rich.console import Console

from eddyline.cli import run as run_command
from eddyline.connectors.draws import Shape
from eddyline.connectors.generate import auction
from eddyline.connectors.sinks import as_rich

_QUERIES = """
-- Bids over 150 with the category's VAT: two streams and a static table.
CREATE QUERY big_bids AS
  SELECT a.item_id, a.category, b.bidder, b.price * (1 + c.vat) AS gross
  FROM auctions [RANGE 10 MINUTES] a, bids [RANGE 10 MINUTES] b, categories c
  WHERE a.item_id = b.item_id AND a.category = c.category AND b.price > 150;

-- A bidder who raises his own bid within ten seconds: a stream joined with itself.
CREATE QUERY raised AS
  SELECT x.item_id, x.bidder, x.price AS first_price, y.price AS second_price
  FROM bids [RANGE 10 SECONDS] x, bids [RANGE 10 SECONDS] y
  WHERE x.item_id = y.item_id AND x.bidder = y.bidder AND x.price < y.price;

-- Two bids of rising price by different bidders on one item, with its auction: a three-way join in a tree of our choice.
CREATE QUERY bidding_wars WITH (plan = '((a x) y)') AS
  SELECT a.item_id, a.seller, x.price AS p1, y.price AS p2
  FROM auctions [RANGE 5 MINUTES] a, bids [RANGE 3 SECONDS] x, bids [RANGE 3 SECONDS] y
  WHERE a.item_id = x.item_id AND x.item_id = y.item_id AND x.price < y.price AND x.bidder <> y.bidder;
"""


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser("demo", help="generate auction streams and run several queries over them")
    parser.add_argument("--dir", default="demo", help="where data and results go (default: demo)")
    parser.add_argument("--seconds", type=float, default=300.0, help="seconds of event time (default: 300)")
    parser.add_argument("--rate", type=float, default=1_000.0, help="bids per second (default: 1000)")
    parser.add_argument("--engine", choices=("embedded", "spark"), default="embedded", help="where it runs (default: embedded)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    console = Console()
    data, out, job = (os.path.join(args.dir, name) for name in ("data", "results", "job.sql"))
    shutil.rmtree(data, ignore_errors=True)
    console.print(f"[bold]1.[/] generating {args.seconds:.0f} s of auctions and bids in {data}")
    made = auction(data, Shape(rate=args.rate, seconds=args.seconds, files=10))
    with open(job, "w", encoding="utf-8") as file:
        file.write("\n".join(made.statements) + "\n" + _QUERIES)
    console.print(f"[bold]2.[/] running {job} ({args.engine}); the same with:")
    command = f"eddyline run {job} --engine {args.engine} --once --out {out} --overwrite"
    console.print(f"   {command}", highlight=False)
    options = argparse.Namespace(job=job, engine=args.engine, master="local[*]", once=True, out=out, overwrite=True)
    options.checkpoint, options.stats, options.quiet = None, os.path.join(args.dir, "stats.json"), False
    run_command.run(options)
    console.print("[bold]3.[/] the first results")
    _show(console, out)
    console.print(f"results are in {out}/<query>/*.parquet, figures in {options.stats}")
    return 0


def _show(console: Console, out: str) -> None:
    import pyarrow.parquet as parquet

    for query in sorted(os.listdir(out)):
        folder = os.path.join(out, query)
        files = sorted(f for f in os.listdir(folder) if f.endswith(".parquet"))
        if query.startswith("_") or not files:
            continue
        console.print(as_rich(parquet.read_table(os.path.join(folder, files[0])), query, 3))
