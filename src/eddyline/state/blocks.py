"""Named tables of a snapshot.

Answer   `Blocks` has a function per name, which makes the table when the snapshot writes it. `held_blocks` are blocks of
         tables that exist already.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import pyarrow as pa

Blocks = dict[str, Callable[[], pa.Table]]
#: Gives the table of a block by its name.
Load = Callable[[str], pa.Table]


def held_blocks(prefix: str, tables: Mapping[str, pa.Table]) -> Blocks:
    """Blocks of tables, each named by the prefix and its part."""
    return {f"{prefix}-{part}": partial(held, table) for part, table in tables.items()}


def held(table: pa.Table) -> pa.Table:
    """A table that exists already, as the block of a snapshot gives it."""
    return table
