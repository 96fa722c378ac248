"""Runs inside Pathway's environment: interval joins over csv files.

Answer   `pathway_join.py ARGUMENT REPORT` reads the streams, joins them and drops the rows; it reports the seconds of
         the run and how many rows the answer has. Threads are those of PATHWAY_THREADS, which the starter sets.
State    All rows: the files are read as a bounded input, in one step, and nothing is forgotten.
Limits   Only the standard library and Pathway are there: nothing of the project is imported.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pathway as pw


def stream(name: str, path: str, keys: list[str]) -> pw.Table:
    columns = {
        **{key: pw.column_definition(dtype=int) for key in keys},
        "v": pw.column_definition(dtype=float),
        "us": pw.column_definition(dtype=int),
    }
    return pw.io.csv.read(path, schema=pw.schema_builder(columns, name=name), mode="static")


def joined(argument: dict) -> pw.Table:
    names = list(argument["streams"])
    window = argument["window_us"]
    tables = {name: stream(name, told["path"], told["keys"]) for name, told in argument["streams"].items()}
    first = names[0]
    left = tables[first].select(**{f"{first}_{column}": pw.this[column] for column in tables[first].column_names()})
    for name in names[1:]:
        right = tables[name].select(**{f"{name}_{column}": pw.this[column] for column in tables[name].column_names()})
        pairs = [[side.replace(".", "_") for side in pair] for pair in argument["equalities"]]
        pairs = [(one, two) if two.startswith(f"{name}_") else (two, one) for one, two in pairs]
        conditions = [
            left[one] == right[two] for one, two in pairs if one in left.column_names() and two in right.column_names()
        ]
        near = pw.temporal.interval(-window, window)
        both = pw.temporal.interval_join_inner(left, right, left[f"{first}_us"], right[f"{name}_us"], near, *conditions)
        columns = {column: left[column] for column in left.column_names()} | {
            column: right[column] for column in right.column_names()
        }
        others = [column for column in left.column_names() if column.endswith("_us") and column != f"{first}_us"]
        left = both.select(**columns)
        for other in others:
            left = left.filter(
                (pw.this[f"{name}_us"] - pw.this[other] <= window) & (pw.this[other] - pw.this[f"{name}_us"] <= window)
            )
    return left.select(*[pw.this[column] for column in left.column_names() if column.endswith(("_v", "_us"))])


def main(argument: dict, report: Path) -> None:
    answer = joined(argument)
    counts: list[int] = [0]

    def count(key, row, time, is_addition) -> None:
        if is_addition:
            counts[0] = row["rows"]

    pw.io.null.write(answer)
    pw.io.subscribe(answer.reduce(rows=pw.reducers.count()), on_change=count)
    began, before = time.perf_counter(), time.process_time()
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    said = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - before, "results": counts[0]}
    report.write_text(json.dumps(said))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), Path(sys.argv[2]))
