"""Answers of the REQUEST statements of a job: one file each.

Answer   `write_requests(out, tables)` writes `<out>/_requests/<n>.parquet`, n from 1 in the order of the job file. Each
         file is complete or not there. Files of an earlier run with larger numbers are removed.
State    None.
Limits   Every run writes them anew: an answer is not part of a checkpoint.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as parquet

from eddyline.errors import UserError
from eddyline.state.whole_file import SHARED, write_whole

FOLDER = "_requests"


def write_requests(out: str, tables: Sequence[pa.Table]) -> None:
    folder = os.path.join(out, FOLDER)
    try:
        os.makedirs(folder, exist_ok=True)
        for number, table in enumerate(tables, 1):
            sink = pa.BufferOutputStream()
            parquet.write_table(table, sink)
            write_whole(os.path.join(folder, f"{number}.parquet"), sink.getvalue(), mode=SHARED)
        for name in os.listdir(folder):
            if (found := re.fullmatch(r"([0-9]+)\.parquet", name)) and int(found[1]) > len(tables):
                os.remove(os.path.join(folder, name))
    except OSError as problem:
        message, hint = "the answers of requests cannot be written", "check free space and permissions of --out"
        raise UserError(message, detail=str(problem), hint=hint) from problem
