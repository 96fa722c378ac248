"""Changes that another process sends to a running job: checked first, then written as a control record.

Answer   `add_queries`, `drop_queries` and `set_triggers` apply a change to a job that `planned_job` gave, and write its
         record if the job takes it.
State    None.
Limits   Two processes may send changes at the same time that exclude each other: each check passes, and the job refuses
         the later record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from eddyline.language import Job
from eddyline.model.schema import Stream, Table
from eddyline.plan.prepare import check, notices
from eddyline.runtime.control.control import Change, ControlFolder, apply_record
from eddyline.runtime.control.control_record import add_record, drop_record, set_record


@dataclass(frozen=True)
class SentChange:
    #: The number of the control record.
    record: int
    change: Change
    warnings: tuple[str, ...] = ()


def add_queries(folder: ControlFolder, job: Job, sql: str) -> SentChange:
    record = add_record(sql)
    change = apply_record(job, record)
    sources: dict[str, Stream | Table] = {**job.catalog.streams, **job.catalog.tables}
    for query in change.added:
        check(query, sources)
    warnings = tuple(warning for query in change.added for warning in notices(query, sources))
    return SentChange(folder.append(record), change, warnings)


def drop_queries(folder: ControlFolder, job: Job, names: Iterable[str]) -> SentChange:
    change = apply_record(job, drop_record(names))
    return SentChange(folder.append(drop_record(change.names)), change)


def set_triggers(folder: ControlFolder, job: Job, query: str, settings: Mapping[str, str]) -> SentChange:
    change = apply_record(job, set_record(query, settings))
    assert change.triggers is not None
    return SentChange(folder.append(set_record(*change.triggers)), change)
