"""`eddyline state --checkpoint DIR`: what a checkpoint holds, shard by shard.

Answer   Per shard its live rows, waiting rows, bytes, frontier and queries, and the version of the format; of Spark's and
         of embedded checkpoints, after a crash too. Nothing runs.
State    None.
Limits   A job that runs may write the next checkpoint meanwhile: the figures are those of one of the two.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict

from rich.console import Console
from rich.table import Table

from eddyline.cli.progress import instant_text
from eddyline.errors import UserError
from eddyline.runtime.embedded.checkpoint import embedded_state
from eddyline.runtime.recovery.checkpoint_state import CheckpointState, ShardState
from eddyline.runtime.sharded.job.checkpoint_progress import spark_state

#: Letters of a cell; a longer list of queries is shown as their number.
_NAMES = 60

#: One function per engine; it returns None for a folder that is no checkpoint of its engine.
READERS: tuple[Callable[[str], CheckpointState | None], ...] = (
    spark_state,
    embedded_state,
)


def run(args: argparse.Namespace) -> int:
    state = next((found for read in READERS if (found := read(args.checkpoint)) is not None), None)
    if state is None:
        hint = "DIR is the folder that --checkpoint of `eddyline run` named"
        raise UserError(f"there is no checkpoint in {args.checkpoint}", hint=hint)
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
        table.add_row(str(shard.shard), *_sizes([shard]), instant_text(shard.frontier), _named(shard.queries))
    if len(state.shards) > 1:
        table.add_section()
        table.add_row("all", *_sizes(state.shards))
    console.print(table)


def _sizes(shards: Sequence[ShardState]) -> tuple[str, str, str]:
    """Live rows, waiting rows and megabytes of some shards together."""
    rows, waiting = sum(shard.rows for shard in shards), sum(shard.waiting for shard in shards)
    return f"{rows:,}", f"{waiting:,}", f"{sum(shard.bytes for shard in shards) / 1e6:,.1f}"


def _named(queries: tuple[str, ...]) -> str:
    text = ", ".join(queries)
    return text if len(text) <= _NAMES else f"{len(queries):,} queries"
