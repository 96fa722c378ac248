"""What statements say of streams at instants, on its way to the shards.

Answer   `say` writes a control record for every shard with the records that no earlier run of the checkpoint has
         written; `say_now` one for a job that runs.
State    The names of those that were written, in the ledger.
Limits   After a crash between the two writes a record is written again; pipelines take each name once.
"""

from __future__ import annotations

from collections.abc import Sequence

from eddyline.errors import Unsupported
from eddyline.model.records.herald import spans_rows
from eddyline.model.records.records import Records
from eddyline.runtime.engine.records.kinds import is_concerned
from eddyline.runtime.sharded.ingest.control import write_control
from eddyline.runtime.sharded.job.layout import JobLayout
from eddyline.runtime.sharded.job.ledger import Ledger


def say(checkpoint: str, records: Sequence[Records]) -> None:
    ledger = Ledger.read(checkpoint)
    known = set(ledger.said)
    fresh = [batch for batch in records if batch.once is None or batch.once not in known]
    if fresh:
        write_control(checkpoint, {"records": [batch.document() for batch in fresh]})
        ledger.said += [batch.once for batch in fresh if batch.once is not None]
        ledger.write()


def say_now(layout: JobLayout, records: Sequence[Records]) -> None:
    """Records of a job that runs.

    Raises:
        Unsupported: shards would have to number rows together and do not.
    """
    for batch in records:
        counted = batch.stream in layout.counted
        if counted and not is_concerned(layout.streams[layout.numbers[batch.stream]]):
            raise Unsupported(
                f"nothing can be said of stream {batch.stream} while the job runs",
                detail="a ROWS window reads it, and shards number its rows apart",
                hint="say it in the job's file",
            )
        if spans_rows(batch) and not counted:
            raise Unsupported(
                f"no number of rows of stream {batch.stream} can be heralded while the job runs",
                detail="shards do not count its rows",
                hint="give a span of time, or say it in the job's file",
            )
    write_control(layout.checkpoint, {"records": [batch.document() for batch in records]})
