"""What statements say of streams at instants, on its way to the shards.

Answer   `say` writes a control record for every shard with the records that no earlier run of the checkpoint has written.
State    The names of those that were written, in the ledger.
Limits   After a crash between the two writes a record is written again; pipelines take each name once.
"""

from __future__ import annotations

from collections.abc import Sequence

from eddyline.model.records import Records
from eddyline.runtime.spark.ingest.control import write_control
from eddyline.runtime.spark.job.ledger import Ledger


def say(checkpoint: str, records: Sequence[Records]) -> None:
    ledger = Ledger.read(checkpoint)
    known = set(ledger.said)
    fresh = [batch for batch in records if batch.once is None or batch.once not in known]
    if fresh:
        write_control(checkpoint, {"records": [batch.document() for batch in fresh]})
        ledger.said += [batch.once for batch in fresh if batch.once is not None]
        ledger.write()
