"""A static table as the checkpoint keeps it: an Arrow file whose name has its digest.

Answer   `keep` writes the rows once; `kept` finds what an earlier run wrote; `StaticTable.rows` maps the file into
         memory and compares its digest with its name. Driver and workers map the same file.
State    `<table>.<digest>.arrow` in the folder for tables.
Limits   One file per table: `forget` removes it, and the next run reads the source again.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass

import pyarrow as pa

from eddyline.errors import CheckpointProblem
from eddyline.model.schema import Table
from eddyline.state.sealed import RESTORE, damaged
from eddyline.state.whole_file import make_folder, write_whole


@dataclass(frozen=True)
class StaticTable:
    table: Table
    path: str
    digest: str

    def rows(self) -> pa.Table:
        try:
            file = pa.memory_map(self.path)
            if digest_of(file.read_buffer()) == self.digest:
                return pa.ipc.open_file(file).read_all()
            problem = "the digest does not fit the content"
        except (OSError, ValueError) as caught:
            problem = str(caught)
        raise damaged(self.path, f"the rows of table {self.table.name}", problem) from None


def keep(folder: str, table: Table, rows: pa.Table) -> StaticTable:
    content = content_of(rows)
    digest = digest_of(content)
    path = os.path.join(folder, f"{table.name}.{digest}.arrow")
    make_folder(folder)
    write_whole(path, content)
    return StaticTable(table, path, digest)


def content_of(rows: pa.Table) -> pa.Buffer:
    """The rows as a file holds them; the same rows give the same bytes, however a source has cut them into chunks."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows.combine_chunks())
    return sink.getvalue()


def kept(folder: str, table: Table) -> StaticTable | None:
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        found = re.fullmatch(re.escape(table.name) + r"\.([0-9a-f]{32})\.arrow", name)
        if found:
            return StaticTable(table, os.path.join(folder, name), found[1])
    return None


def files_of(folder: str, table: str) -> dict[str, str]:
    """The paths of all files of a table, by digest."""
    found = {}
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        match = re.fullmatch(re.escape(table) + r"\.([0-9a-f]{32})\.arrow", name)
        if match:
            found[match[1]] = os.path.join(folder, name)
    return found


def version_of(folder: str, table: Table, digest: str) -> StaticTable:
    """The version of a table that has this digest; a record names it."""
    if not re.fullmatch(r"[0-9a-f]{32}", digest):
        raise CheckpointProblem(f"{digest!r} names no version of table {table.name}", hint=RESTORE)
    return StaticTable(table, os.path.join(folder, f"{table.name}.{digest}.arrow"), digest)


def forget(folder: str, table: str) -> None:
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        if re.fullmatch(re.escape(table) + r"\.[0-9a-f]{32}\.arrow", name):
            os.remove(os.path.join(folder, name))


def digest_of(content: bytes | pa.Buffer) -> str:
    return hashlib.sha256(content).hexdigest()[:32]
