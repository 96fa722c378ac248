"""Tables that change: which version of a table holds for which newest rows.

Answer   `TableVersions.take` makes a newly read table the version from an instant on, and puts it into the joins that
         read the table. A combination uses the version at its newest row: queries compare its time with `since$` and
         `until$`, which the rows of such a table carry (`language/derived/changing.py` writes the comparison).
State    Per table its versions, oldest first. A version that ends below the frontier of every query is of no use and
         goes with the next change.
Limits   Tables change between two epochs. Drivers read them when they are due (`driving/table_refreshing.py`).
         Rows that are equal to those of the version before are no version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from eddyline.model.datatypes import TIMESTAMP
from eddyline.model.schema import SINCE, UNTIL, Column, Schema, Table
from eddyline.state.blocks import held

if TYPE_CHECKING:
    from eddyline.runtime.engine.pipeline import Pipeline

#: Before all rows, and after all rows; event times lie between the years 1 and 9999.
BEGINNING, END = -(1 << 62), 1 << 62


@dataclass
class Version:
    rows: pa.Table
    #: It holds for newest rows after `since`, up to and with `until`.
    since: int = BEGINNING
    until: int = END
    #: What names it: the block of a checkpoint, or on Spark the digest of its file.
    name: str = ""


@dataclass
class Changing:
    """One table that changes, and what became of reading it."""

    table: Table
    versions: list[Version] = field(default_factory=list)
    #: How often it was read again, and how often that failed.
    read: int = 0
    failed: int = 0
    #: Why the last read failed; empty: it did not.
    problem: str = ""
    #: The number of the last version, for names of blocks.
    last: int = 0


class TableVersions:
    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self.tables: dict[str, Changing] = {}
        #: Gives the rows of a version by its table and name, where files of their own keep them; None: blocks of the
        #: checkpoint do.
        self.files: Callable[[str, str], pa.Table] | None = None

    def add(self, table: Table, rows: pa.Table, name: str = "") -> None:
        """The first version of a table that changes."""
        self.tables[table.name] = Changing(table)
        self._pipeline.table_schemas[table.name] = replace(
            table, schema=Schema((*table.schema.columns, Column(SINCE, TIMESTAMP), Column(UNTIL, TIMESTAMP)))
        )
        self._append(self.tables[table.name], Version(rows.combine_chunks(), name=name))
        self._fill(table.name)

    def drop(self, name: str) -> None:
        self.tables.pop(name, None)

    @property
    def instant(self) -> int | None:
        """The newest event time of any stream, on Spark the same in every shard; rows after it meet what is read
        now."""
        return max(
            (i.newest for i in self._pipeline.intakes.values() if i.newest is not None and not i.stream.is_derived),
            default=None,
        )

    def take(self, name: str, rows: pa.Table, block: str = "") -> bool:
        """A table has been read again: from this instant on it is this. Whether it has changed."""
        known = self.tables[name]
        known.read, known.problem = known.read + 1, ""
        rows, now = rows.combine_chunks(), self.instant
        if rows.equals(known.versions[-1].rows):
            return False
        self._forget_old(known)
        if now is None or now <= known.versions[-1].since:
            # No row has come since the last change: what was read then is at no newest row.
            known.versions.pop()
        elif known.versions:
            known.versions[-1].until = now
        self._append(known, Version(rows, BEGINNING if now is None else now, name=block))
        self._load(name)
        return True

    def fail(self, name: str, problem: str) -> None:
        """A table could not be read: the old version stays."""
        known = self.tables[name]
        known.failed, known.problem = known.failed + 1, problem

    def _append(self, known: Changing, version: Version) -> None:
        known.last += 1
        version.name = version.name or f"table-{known.table.name}-{known.last}"
        known.versions.append(version)

    def _forget_old(self, known: Changing) -> None:
        frontier = self._pipeline.frontier
        if frontier is not None:
            known.versions[:-1] = [version for version in known.versions[:-1] if version.until >= frontier]

    def _fill(self, name: str) -> None:
        """All versions as one table, as joins read it."""
        known = self.tables[name]
        parts = [
            version.rows.append_column(SINCE, _always(version.since, len(version.rows))).append_column(
                UNTIL, _always(version.until, len(version.rows))
            )
            for version in known.versions
        ]
        self._pipeline.tables[name] = pa.concat_tables(parts).combine_chunks()

    def _load(self, name: str) -> None:
        self._fill(name)
        for kind in self._pipeline.kinds.all:
            kind.load_table(name)

    # -- what a checkpoint keeps

    def saved(self, blocks: dict[str, Callable[[], pa.Table]]) -> dict[str, Any]:
        """The versions that are still needed; their rows become blocks, unless files of their own hold them."""
        for known in self.tables.values() if self.files is None else ():
            blocks.update({version.name: partial(held, version.rows) for version in known.versions})
        return {
            name: {
                "versions": [[v.name, v.since, v.until] for v in known.versions],
                "last": known.last,
                "read": known.read,
                "failed": known.failed,
                "problem": known.problem,
            }
            for name, known in self.tables.items()
        }

    def restore(self, saved: Mapping[str, Any], load: Callable[[str], pa.Table]) -> None:
        """The versions as they were; `load` gives the rows of a block."""
        for name, found in saved.items():
            if name in self.tables:
                known = self.tables[name]
                known.versions = [
                    Version(load(block) if self.files is None else self.files(name, block), since, until, block)
                    for block, since, until in found["versions"]
                ]
                known.last = found["last"]
                # Checkpoints of earlier versions do not know what became of reading it.
                known.read, known.failed, known.problem = (
                    found.get("read", 0),
                    found.get("failed", 0),
                    found.get("problem", ""),
                )
                self._load(name)

    def figures(self) -> dict[str, dict[str, Any]]:
        """The figures of each table."""
        return {
            name: {
                "versions": len(known.versions),
                "rows": known.versions[-1].rows.num_rows,
                "since": None if known.versions[-1].since == BEGINNING else known.versions[-1].since,
                "read": known.read,
                "failed": known.failed,
                "problem": known.problem,
            }
            for name, known in self.tables.items()
        }


def _always(instant: int, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(instant, pa.int64()), rows).cast(pa.timestamp("us"))
