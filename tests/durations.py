"""What each test file costs: a record that one run of pytest writes, and the order that the next one takes from it.

Answer   `EDDYLINE_DURATIONS=FILE pytest …` writes FILE: CPU seconds, seconds of the clock and the number of tests of
         each test file, and the tests that took more than a second. Workers of xdist send their part; the run merges
         them. `slowest_first` sorts tests by the record that is kept, `tests/durations.json`. A file that the record
         lacks comes first. `python -m tests.durations FILE …` merges such files into the record that is kept: `make
         durations`.
State    CPU time is user and system time of this process, of its children that ended and of all live processes below
         it. A test file gets what is spent until the next file begins.
Limits   A process that outlives its parent belongs to no test: the CPU time of a JVM whose driver was killed is
         missing. Live processes are found in /proc; where there is none, they count when they end.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import sys
import time
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).parents[1]
KEPT = Path(__file__).with_suffix(".json")
#: Tests that take longer are listed by name.
LONG = 1.0
#: In this folder a test with the fixture `spark` uses the session of its process.
SESSION = "tests/spark"
_ASKED_FOR = {SESSION: "spark", "tests/browser": "page", "tests/fault": "runs"}
_ASKS = r"^def \w+\((?:[^()]*,)?\s*{}\b"
_TICKS = os.sysconf("SC_CLK_TCK")

Cost = dict[str, float]
Record = dict[str, dict[str, Cost]]


def cpu_seconds() -> float:
    """User and system time so far: of this process, of its children that have ended, and of every live process below
    it."""
    own = [resource.getrusage(of) for of in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in own) + _below(os.getpid())


def _below(top: int) -> float:
    parents: dict[int, list[int]] = defaultdict(list)
    spent: dict[int, float] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name of a program can hold blanks and brackets: fields are counted behind the last one.
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(entry.parent.name)
        parents[int(fields[1])].append(pid)
        # utime, stime, and the same of children that it has waited for.
        spent[pid] = sum(map(int, fields[11:15])) / _TICKS
    total, open_ = 0.0, list(parents[top])
    while open_:
        pid = open_.pop()
        total += spent[pid]
        open_ += parents[pid]
    return total


def file_of(nodeid: str) -> str:
    return nodeid.split("::")[0]


@cache
def group_of(file: str) -> str:
    """Tests of one group run on one worker, one after the other: those of a file, and of all files that ask for the
    one session of Spark, for the one browser or for the process that forks runs to be killed."""
    folder = file.rpartition("/")[0]
    shares = folder in _ASKED_FOR and re.search(_ASKS.format(_ASKED_FOR[folder]), (ROOT / file).read_text(), re.M)
    return folder if shares else file


class Groups(LoadScopeScheduling):
    """The workers of xdist get whole groups, in the order of their first tests."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(file_of(nodeid))


def slowest_first(items: list[pytest.Item], record: Path = KEPT) -> None:
    """Files that took longest begin first; files that the record lacks before them. Tests stay in the order of their
    file."""
    known = json.loads(record.read_text())["files"] if record.exists() else {}
    items.sort(key=lambda one: -known.get(file_of(one.nodeid), {"seconds": float("inf")})["seconds"])


def merged(records: list[Record]) -> Record:
    """All records as one: what a file or test cost in several of them is added."""
    found: Record = {"files": {}, "tests": {}}
    for record in records:
        for kind in found:
            for name, cost in record[kind].items():
                known = found[kind].setdefault(name, dict.fromkeys(cost, 0))
                found[kind][name] = {key: round(known[key] + cost[key], 2) for key in cost}
    return found


def write(record: Record, path: Path) -> None:
    """One line per file and per test, so that a difference between two records can be read."""
    parts = []
    for kind, costs in record.items():
        lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(costs[name])}" for name in sorted(costs))
        parts.append(f' "{kind}": {{\n{lines}\n }}')
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n")


def total(record: Record) -> float:
    return sum(cost["cpu"] for cost in record["files"].values())


class Recorder:
    """A plugin of pytest: the costs of this process, and in the process that has workers those of all of them."""

    def __init__(self, config: pytest.Config, path: Path):
        self.config, self.path = config, path
        self.files: dict[str, Cost] = {}
        self.tests: dict[str, Cost] = {}
        self.others: list[Record] = []
        self.file = ""
        # This process began to import before it made this object.
        self.began = (time.monotonic(), 0.0)

    def _close(self, upcoming: str) -> None:
        """What was spent since the last file began belongs to that file; before the first one, to collecting."""
        now = (time.monotonic(), cpu_seconds())
        cost = self.files.setdefault(self.file or "collecting", {"cpu": 0.0, "seconds": 0.0, "tests": 0})
        cost["seconds"] += now[0] - self.began[0]
        # A process that ended unseen can make the sum smaller.
        cost["cpu"] += max(0.0, now[1] - self.began[1])
        self.file, self.began = upcoming, now

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        if file_of(item.nodeid) != self.file:
            self._close(file_of(item.nodeid))
            self.files.setdefault(self.file, {"cpu": 0.0, "seconds": 0.0, "tests": 0})
        self.files[self.file]["tests"] += 1
        began = time.monotonic()
        try:
            return (yield)
        finally:
            took = time.monotonic() - began
            if took > LONG:
                self.tests[item.nodeid] = {"seconds": took}

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        self._close("")
        output = getattr(self.config, "workeroutput", None)
        if output is not None:
            output["durations"] = {"files": self.files, "tests": self.tests}

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.others.append(getattr(node, "workeroutput", {}).get("durations", {"files": {}, "tests": {}}))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.others:
            # The process that has workers runs no test, and what it spends below itself the workers have counted.
            own = resource.getrusage(resource.RUSAGE_SELF)
            self.files = {"collecting": {"cpu": own.ru_utime + own.ru_stime, "seconds": 0.0, "tests": 0}}
        record = merged([{"files": self.files, "tests": self.tests}, *self.others])
        write(record, self.path)
        terminalreporter.write_line(
            f"CPU: {total(record):.0f} s; per file in {self.path}, which `make durations` keeps"
        )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.durations", description="Keep the record of a run as tests/durations.json."
    )
    parser.add_argument("records", nargs="+", type=Path, metavar="FILE")
    args = parser.parse_args(arguments)
    record = merged([json.loads(path.read_text()) for path in args.records])
    write(record, KEPT)
    suites: dict[str, float] = defaultdict(float)
    for name, cost in record["files"].items():
        suites[name.rpartition("/")[0] or name] += cost["cpu"]
    for suite, cpu in sorted(suites.items(), key=lambda one: -one[1]):
        print(f"{cpu:8.1f} s  {suite}")
    print(f"{total(record):8.1f} s  CPU in all, kept in {KEPT.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
