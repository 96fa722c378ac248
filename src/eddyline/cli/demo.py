"""`eddyline demo`: auction streams, several queries, results.

Answer   Generates streams, writes a job file, runs it, and prints the first results, the checkpoint, and how many rows a
         join without windows stores. Each command is printed as a user would type it.
State    A folder with the data, the job file, the results, the checkpoint and the figures.
Limits   A second call replaces what the first one made.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil

from rich.console import Console

from eddyline.cli.__main__ import parser
from eddyline.cli.demo_state import show_state
from eddyline.connectors.generators.draws import GeneratorShape
from eddyline.connectors.generators.generate import auction
from eddyline.connectors.results.sinks import as_rich
from eddyline.model.clock import WALL

_SOLD = """
-- An auction closes: no bid on its item comes after that. Joins without windows forget closed auctions and their bids.
CREATE PUNCTUATION sold ON bids (item_id) FROM auctions (item_id) AT closes;

-- Every item when its auction closes: a join without any window, in flat memory.
CREATE QUERY sold_items AS
  SELECT a.item_id, count(*) AS bids, max(b.price) AS price
  FROM auctions a, bids b WHERE a.item_id = b.item_id
  GROUP BY a.item_id EMIT ON CLOSE;
"""
_QUERIES = """
-- Bids over 150 with the category's VAT: two streams and a static table.
CREATE QUERY big_bids AS
  SELECT a.item_id, a.category, b.bidder, b.price * (1 + c.vat) AS gross
  FROM auctions [RANGE 10 MINUTES] a, bids [RANGE 10 MINUTES] b, categories c
  WHERE a.item_id = b.item_id AND a.category = c.category AND b.price > 150;

-- Pairs of bids by one bidder within ten seconds, the second one higher: a stream joined with itself.
CREATE QUERY raised AS
  SELECT x.item_id, x.bidder, x.price AS first_price, y.price AS second_price
  FROM bids [RANGE 10 SECONDS] x, bids [RANGE 10 SECONDS] y
  WHERE x.item_id = y.item_id AND x.bidder = y.bidder AND x.price < y.price;

-- Two bids of rising price by different bidders on one item, with its auction: a three-way join in a tree of our choice.
CREATE QUERY bidding_wars WITH (plan = '((a x) y)') AS
  SELECT a.item_id, a.seller, x.price AS p1, y.price AS p2
  FROM auctions [RANGE 5 MINUTES] a, bids [RANGE 3 SECONDS] x, bids [RANGE 3 SECONDS] y
  WHERE a.item_id = x.item_id AND x.item_id = y.item_id AND x.price < y.price AND x.bidder <> y.bidder;

-- How many bids there were in each minute, and the highest, when the minute is over.
CREATE QUERY per_minute AS
  SELECT date_trunc('minute', ts) AS minute, count(*) AS bids, max(price) AS highest
  FROM bids GROUP BY date_trunc('minute', ts) EMIT ON CLOSE;
"""
#: Seconds that an auction is open, about.
_OPEN = 30.0


def run(args: argparse.Namespace) -> int:
    began = WALL.now()
    console = Console()
    data, out, state, job = (os.path.join(args.dir, name) for name in ("data", "results", "checkpoint", "job.sql"))
    for made_before in (data, out, state):
        shutil.rmtree(made_before, ignore_errors=True)
    console.print(f"[bold]1.[/] generating {args.seconds:.0f} s of auctions and bids in {data}")
    made = auction(data, GeneratorShape(rate=args.rate, seconds=args.seconds, files=10), open_seconds=_OPEN)
    statements = "\n".join(made.statements)
    # An item is in one auction.
    statements = re.sub(
        r"(CREATE STREAM auctions .*?)time = 'ts'", r"\1time = 'ts', key = 'item_id'", statements, flags=re.S
    )
    # Each batch reads one file of each stream: the display has several batches to show.
    in_batches = statements.replace("time = 'ts'", "time = 'ts', files_per_batch = '1'")
    with open(job, "w", encoding="utf-8") as file:
        file.write(f"{in_batches}\n{_SOLD}{_QUERIES}")
    console.print(f"[bold]2.[/] running {job} ({args.engine}); the same with:")
    command = ["run", job, "--engine", args.engine, "--once", "--out", out, "--checkpoint", state]
    console.print(f"   eddyline {' '.join(command)}", highlight=False, soft_wrap=True)
    figures = os.path.join(args.dir, "stats.json")
    carry_out([*command, "--stats", figures])
    console.print("[bold]3.[/] the first results")
    _show(console, out)
    console.print(f"[bold]4.[/] the checkpoint: eddyline state --checkpoint {state}", soft_wrap=True)
    carry_out(["state", "--checkpoint", state])
    with open(figures, encoding="utf-8") as file:
        forgotten = json.load(file)
    console.print(
        f"{forgotten['purged_rows']:,} rows were forgotten: by the punctuations no later row can join them; "
        f"the most rows that were stored at once: {forgotten['peak_stored_rows']:,}",
        highlight=False,
        soft_wrap=True,
    )
    console.print("[bold]5.[/] a join without any window keeps as many rows as there are open auctions and their bids")
    show_state(console, statements, _SOLD, int(1.1 * args.rate * args.seconds))
    console.print(
        f"results are in {out}/<query>/*.parquet, figures in {figures}; {WALL.now() - began:.0f} s in all",
        highlight=False,
        soft_wrap=True,
    )
    return 0


def carry_out(arguments: list[str]) -> None:
    """Carry out a command with its arguments; its errors are those of the demo."""
    args = parser(arguments[0]).parse_args(arguments)
    args.run(args)


def _show(console: Console, out: str) -> None:
    import pyarrow.parquet as parquet

    for query in sorted(os.listdir(out)):
        folder = os.path.join(out, query)
        files = sorted(f for f in os.listdir(folder) if f.endswith(".parquet"))
        if query.startswith("_") or not files:
            continue
        console.print(as_rich(parquet.read_table(os.path.join(folder, files[0])), query, 3))
