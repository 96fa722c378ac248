"""Runs inside bytewax's environment: an equijoin of streams in event time, as a user of bytewax writes it.

Answer   `bytewax_join.py ARGUMENT REPORT` runs the dataflow in `processes` processes and reports the seconds between
         the first row read and the last row of the answer, and how many rows the answer has.
State    Per key of a join a list for each side. In the first join both sides are in time order, so a row is forgotten
         when the other side has passed its window. Later joins get rows in no order of time and bytewax has no
         watermark that spans keys: they forget nothing.
Limits   Only the standard library, bytewax and pyarrow are there: nothing of the project is imported.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import bytewax.operators as op
import pyarrow.parquet as pq
from bytewax.dataflow import Dataflow
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.operators import StatefulBatchLogic
from bytewax.outputs import DynamicSink, StatelessSinkPartition

#: Rows that a source hands over at a time.
BATCH = 2_000
#: A row of the dataflow: the event times, the key columns and the values of its streams, in their order.
Row = tuple


class Rows(StatefulSourcePartition):
    def __init__(self, stream: str, path: str, keys: list[str]):
        self._stream, self._files, self._keys = stream, sorted(Path(path).glob("*.parquet")), keys
        self._rows = self._read()

    def _read(self):
        for file in self._files:
            table = pq.read_table(file)
            columns = [table[name].to_pylist() for name in self._keys]
            times, values = table["ts"].cast("int64").to_pylist(), table["v"].to_pylist()
            rows = [
                ((when,), tuple(keys), (number,)) for when, number, *keys in zip(times, values, *columns, strict=True)
            ]
            for start in range(0, len(rows), BATCH):
                yield rows[start : start + BATCH]

    def next_batch(self):
        Clock.begin()
        return next(self._rows)

    def snapshot(self) -> None:
        return None


class Stream(FixedPartitionedSource):
    """One partition: its rows stay in time order."""

    def __init__(self, name: str, path: str, keys: list[str]):
        self._arguments = (name, path, keys)

    def list_parts(self) -> list[str]:
        return [self._arguments[0]]

    def build_part(self, step_id: str, for_part: str, resume_state: object) -> Rows:
        return Rows(*self._arguments)


class Clock:
    """When this process read its first row, and when it wrote its last one: the clock is one for all processes of a
    machine."""

    began: float | None = None
    ended: float = 0.0
    results: int = 0

    @classmethod
    def begin(cls) -> None:
        if cls.began is None:
            cls.began = time.monotonic()


class Dropped(StatelessSinkPartition):
    def write_batch(self, items: list) -> None:
        Clock.results += len(items)
        Clock.ended = time.monotonic()


class Drop(DynamicSink):
    def build(self, step_id: str, worker_index: int, worker_count: int) -> Dropped:
        return Dropped()


class Join(StatefulBatchLogic):
    """One key of one join: the rows of both sides that may still meet others."""

    def __init__(self, window: int, ordered: bool):
        self._window, self._ordered = window, ordered
        self._sides: tuple[deque[Row], deque[Row]] = (deque(), deque())

    def on_batch(self, values: list) -> tuple[list, bool]:
        window, found = self._window, []
        for side, row in values:
            others = self._sides[1 - side]
            newest = row[0][0]
            if self._ordered:
                while others and others[0][0][0] < newest - window:
                    others.popleft()
            for other in others:
                left, right = (row, other) if side == 0 else (other, row)
                # The first times are within the window of each other more often than not: the others are compared after
                # them.
                if abs(left[0][0] - right[0][0]) <= window and (
                    len(left[0]) == 1 or _near(left[0], right[0][0], window)
                ):
                    found.append((left[0] + right[0], left[1] + right[1], left[2] + right[2]))
            self._sides[side].append(row)
        return found, StatefulBatchLogic.RETAIN

    def snapshot(self) -> object:
        return None


def _near(times: tuple[int, ...], other: int, window: int) -> bool:
    return all(abs(one - other) <= window for one in times)


def keyed(places: list[int], side: int) -> Callable[[Row], tuple[str, tuple[int, Row]]]:
    """A row with its key: bytewax wants a text."""
    if len(places) == 1:
        place = places[0]
        return lambda row: (str(row[1][place]), (side, row))
    return lambda row: (",".join([str(row[1][place]) for place in places]), (side, row))


def flow(argument: dict) -> Dataflow:
    flow = Dataflow("peer")
    window = argument["window_us"]
    names = list(argument["streams"])
    sources = {
        name: op.input(
            f"read-{name}", flow, Stream(name, argument["streams"][name]["path"], argument["streams"][name]["keys"])
        )
        for name in names
    }
    columns = {name: [f"{name}.{key}" for key in argument["streams"][name]["keys"]] for name in names}
    joined, known = sources[names[0]], columns[names[0]]
    for number, name in enumerate(names[1:]):
        own = columns[name]
        pairs = [(one, two) if two in own else (two, one) for one, two in argument["equalities"]]
        pairs = [(one, two) for one, two in pairs if one in known and two in own]
        left = op.map(f"left-{name}", joined, keyed([known.index(one) for one, _ in pairs], 0))
        right = op.map(f"right-{name}", sources[name], keyed([own.index(two) for _, two in pairs], 1))
        both = op.merge(f"both-{name}", left, right)
        ordered = number == 0
        logic = op.stateful_batch(f"join-{name}", both, lambda _, ordered=ordered: Join(window, ordered))
        joined = op.key_rm(f"joined-{name}", logic)
        known = known + own
    op.output("drop", joined, Drop())
    return flow


def worker(argument: dict, index: int, addresses: list[str], report: Path) -> None:
    from bytewax.run import cli_main

    cli_main(
        flow(argument),
        workers_per_process=1,
        process_id=index if len(addresses) > 1 else None,
        addresses=addresses if len(addresses) > 1 else None,
    )
    report.write_text(
        json.dumps(
            {
                "began": Clock.began,
                "ended": max(Clock.ended, time.monotonic()),
                "results": Clock.results,
                "cpu_seconds": time.process_time(),
            }
        )
    )


def free_addresses(count: int) -> list[str]:
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    found = [f"127.0.0.1:{one.getsockname()[1]}" for one in held]
    for one in held:
        one.close()
    return found


def main(argument: dict, report: Path, program: str = __file__) -> None:
    addresses = free_addresses(argument["processes"])
    reports = [report.with_name(f"worker-{index}.json") for index in range(len(addresses))]
    running = [
        subprocess.Popen(
            [sys.executable, program, json.dumps(argument), str(one), str(index), *addresses], env={**os.environ}
        )
        for index, one in enumerate(reports)
    ]
    codes = [process.wait() for process in running]
    if any(codes):
        raise SystemExit(f"bytewax ended with {codes}")
    said = [json.loads(one.read_text()) for one in reports]
    whole = {
        "seconds": max(one["ended"] for one in said) - min(one["began"] for one in said if one["began"] is not None),
        "cpu_seconds": sum(one["cpu_seconds"] for one in said),
        "results": sum(one["results"] for one in said),
        "processes": len(said),
    }
    report.write_text(json.dumps(whole))


if __name__ == "__main__":
    if len(sys.argv) > 3:
        worker(json.loads(sys.argv[1]), int(sys.argv[3]), sys.argv[4:], Path(sys.argv[2]))
    else:
        main(json.loads(sys.argv[1]), Path(sys.argv[2]))
