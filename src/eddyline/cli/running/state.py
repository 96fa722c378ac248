"""`eddyline state --checkpoint DIR`: what a checkpoint holds, shard by shard, without running anything.

Answer   Per shard its live rows, rows that wait, bytes, frontier and queries, and the version of the form; of Spark's
         and of embedded checkpoints, after a crash too.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict

from rich.console import Console
from rich.table import Table

from eddyline.cli.progress import moment
from eddyline.errors import UserError
from eddyline.runtime.embedded.checkpoint import embedded_state
from eddyline.runtime.recovery.checkpoint_state import CheckpointState
from eddyline.runtime.sharded.job.standing import spark_state

#: Letters. A longer list of queries is shown as their number.
_NAMES = 60

#: What reads the checkpoints of each engine; None: the folder is none of them.
READERS: tuple[Callable[[str], CheckpointState | None], ...] = (
    spark_state,
    embedded_state,
)


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser("state", help="show what a checkpoint holds")
    parser.add_argument(
        "--checkpoint", required=True, metavar="DIR", help="the checkpoint folder of a job, running or not"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object; times in microseconds since 1970")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    state = next((found for read in READERS if (found := read(args.checkpoint)) is not None), None)
    if state is None:
        raise UserError(
            f"there is no checkpoint in {args.checkpoint}", hint="DIR is what --checkpoint of `eddyline run` was"
        )
    if args.json:
        print(json.dumps(asdict(state)))
    else:
        _show(state, Console())
    return 0


def _show(state: CheckpointState, console: Console) -> None:
    unit = "batch" if state.engine == "spark" else "epoch"
    when = f"after {unit} {state.epoch}" if state.epoch >= 0 else f"before the first {unit}"
    table = Table(title=f"{state.engine} checkpoint, format {state.format}, {when}", title_justify="left")
    for name in ("shard", "live rows", "waiting", "MB", "frontier", "queries"):
        left = name == "queries"
        table.add_column(name, justify="left" if left else "right", no_wrap=not left, overflow="fold")
    for shard in state.shards:
        size = f"{shard.bytes / 1e6:,.1f}"
        table.add_row(
            str(shard.shard),
            f"{shard.rows:,}",
            f"{shard.waiting:,}",
            size,
            moment(shard.frontier),
            _named(shard.queries),
        )
    if len(state.shards) > 1:
        total = [sum(getattr(shard, name) for shard in state.shards) for name in ("rows", "waiting", "bytes")]
        table.add_section()
        table.add_row("all", f"{total[0]:,}", f"{total[1]:,}", f"{total[2] / 1e6:,.1f}")
    console.print(table)


def _named(queries: tuple[str, ...]) -> str:
    text = ", ".join(queries)
    return text if len(text) <= _NAMES else f"{len(queries):,} queries"
