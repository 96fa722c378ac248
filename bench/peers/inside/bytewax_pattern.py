"""Runs inside bytewax's environment: a sequence of events per trace, as a user of bytewax writes it.

Answer   `bytewax_pattern.py ARGUMENT REPORT` runs the dataflow in `processes` processes and reports as
         `bytewax_join.py` does.
State    Per trace how many events of the sequence it has seen; a trace is forgotten at its match. Others stay.
Limits   Only the standard library, bytewax and pyarrow are there. A type comes at most once per trace.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import bytewax.operators as op
import bytewax_join as shared
import pyarrow.parquet as pq
from bytewax.dataflow import Dataflow
from bytewax.operators import StatefulBatchLogic


class Events(shared.Rows):
    def _read(self):
        for file in self._files:
            table = pq.read_table(file, columns=["trace_id", "type"])
            rows = list(zip(map(str, table["trace_id"].to_pylist()), table["type"].to_pylist(), strict=True))
            for start in range(0, len(rows), shared.BATCH):
                yield rows[start : start + shared.BATCH]


class Stream(shared.Stream):
    def build_part(self, step_id: str, for_part: str, resume_state: object) -> Events:
        return Events(*self._arguments)


class Sequence(StatefulBatchLogic):
    def __init__(self, wanted: list[str]):
        self._wanted, self._seen = wanted, 0

    def on_batch(self, values: list[str]) -> tuple[list[int], bool]:
        for kind in values:
            if kind == self._wanted[self._seen]:
                self._seen += 1
                if self._seen == len(self._wanted):
                    return [1], StatefulBatchLogic.DISCARD
        return [], StatefulBatchLogic.RETAIN

    def snapshot(self) -> object:
        return self._seen


def flow(argument: dict) -> Dataflow:
    flow = Dataflow("peer")
    events = op.input("read", flow, Stream("orders", argument["path"], []))
    found = op.stateful_batch("sequence", events, lambda _: Sequence(argument["types"]))
    op.output("drop", found, shared.Drop())
    return flow


if __name__ == "__main__":
    shared.flow = flow
    if len(sys.argv) > 3:
        shared.worker(json.loads(sys.argv[1]), int(sys.argv[3]), sys.argv[4:], Path(sys.argv[2]))
    else:
        shared.main(json.loads(sys.argv[1]), Path(sys.argv[2]), __file__)
