"""Where batches over files and control records end.

Answer   `Offsets.after` gives the offset up to which the next batch reads: how many files of each stream and how many
         control records have been taken, and how far the next file. Files come in name order whatever their
         modification times.
State    A log of the files of each stream, in the order of taking (`file_log.py`). Offsets count its files, so a file
         that appears later with an earlier name shifts nothing.
Limits   Names are listed here and must be readable by all that read pieces.

    offset    {"files": {"bids": 3}, "within": {"bids": 4194304}, "open": {"bids": true}, "control": 0, "runs": 0,
               "done": false, "at": 1700000000000000}

`files` counts those that were taken whole; `within` says how many bytes or row groups of the next one were taken.

A bounded run ends although control records keep coming: after two batches with nothing else it leaves them to the next
run.

`open` turns false in the batch that brings a stream's last file of a bounded run; `runs` counts bounded runs that came
to their end. Both are in the offset, so a batch that runs again after a crash ends the same streams. `at` is the wall
clock when the batch was planned: what is too far ahead of it is so in every run of the batch.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

from eddyline.errors import CheckpointProblem
from eddyline.model.clock import WALL
from eddyline.runtime.sharded.ingest.backlog import Backlog, TakenUpTo, as_offset, places_of
from eddyline.runtime.sharded.ingest.control import asked_to_stop, forget_control, next_control
from eddyline.runtime.sharded.ingest.file_log import FileLog
from eddyline.runtime.sharded.job.layout import JobLayout
from eddyline.state.sealed import RESTORE

#: Batches of a bounded run, with nothing but control records, at most: what a batch asks for is carried out by the one
#: after it.
_CONTROL_BATCHES = 2


class Offsets:
    def __init__(self, layout: JobLayout, once: bool):
        self._layout = layout
        self.once = once
        #: Of a bounded run: the places in the control records from which batches with nothing else began.
        self._only_control: set[int] = set()
        #: Up to where the batch before the last one was committed.
        self._committed: dict[str, int] = {}
        self.logs = {
            s.name: FileLog(s, layout.checkpoint, layout.settings.tuning.input)
            for s in layout.streams
            if "path" in s.options
        }

    @property
    def first(self) -> dict[str, Any]:
        return first_offset(self.logs)

    @cached_property
    def backlog(self) -> Backlog:
        return Backlog(self.logs, self._layout.checkpoint, self._layout.settings)

    def take_all(self) -> None:
        """A bounded run reads what is there now."""
        for log in self.logs.values():
            log.append_new()

    def after(self, start: dict[str, Any]) -> dict[str, Any]:
        """The end of a batch that begins at an offset; the same offset: there is nothing to read."""
        last = asked_to_stop(self._layout.checkpoint)
        if last is not None:
            return {**start, "control": max(start["control"], last)}
        if not self.once:
            for log in self.logs.values():
                log.append_new(following=True)
        begins = places_of(start)
        for name, log in self.logs.items():
            log.check(begins[name].files + (begins[name].within > 0))
        files = self.backlog.after(begins)
        fresh = {name: files[name] > begins[name] for name in files}
        out = {name: self.once and files[name] == TakenUpTo(log.total) for name, log in self.logs.items()}
        still_open = {name: not out[name] and (start["open"][name] or fresh[name]) for name in files}
        done = start["done"] and not any(fresh.values())
        control = next_control(self._layout.checkpoint)
        if control < start["control"]:
            raise CheckpointProblem(
                f"control records of {self._layout.checkpoint} are missing",
                detail=f"there are {control} in eddyline/control, and {start['control']} have been read",
                hint=RESTORE,
            )
        # Streams that are not files end when Spark says so: then a control record closes the run.
        all_files = len(files) == len(self._layout.streams)
        ends = self.once and not done and all_files and not any(still_open.values())
        if self.once and not ends and not any(fresh.values()):
            self._only_control.add(start["control"])
            if len(self._only_control) > _CONTROL_BATCHES:
                return start
        found = {
            **as_offset(files),
            "open": still_open,
            "control": control,
            "runs": start["runs"] + int(ends),
            "done": done or ends,
            "at": start.get("at", 0),
        }
        # Another instant alone is nothing new: it would be a batch.
        return found if found == {"at": 0, "within": {}, **start} else {**found, "at": WALL.instant()}

    def committed(self, end: dict[str, Any]) -> None:
        """No batch reads the control records up to here, nor the files before the last batch, again."""
        forget_control(self._layout.checkpoint, end["control"])
        for name, count in self._committed.items():
            self.logs[name].forget(count)
        self._committed = end["files"]


def first_offset(names: Iterable[str]) -> dict[str, Any]:
    """Where the first batch begins."""
    names = list(names)
    return {
        **as_offset(dict.fromkeys(names, TakenUpTo(0))),
        "open": dict.fromkeys(names, True),
        "control": 0,
        "runs": 0,
        "done": False,
        "at": 0,
    }
