"""State on disk on shards: the budget is the job's, the answer that of one pipeline, and no file outlives its shard."""

from __future__ import annotations

import gc
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from eddyline import Session
from eddyline.runtime.sharded.shard import engines
from tests.spark.simulated import Simulated

BATCHES, ROWS, SHARDS = 16, 2000, 3
STREAMS = "".join(
    f"CREATE STREAM {name} (k BIGINT, t STRING, x DOUBLE, ts TIMESTAMP) WITH (time = 'ts'{{}}, rate = 1000);"
    for name in "ab"
)
JOIN = """CREATE QUERY q {} AS SELECT a.k AS k, a.t AS left_text, b.t AS right_text, a.x + b.x AS x
          FROM a [RANGE 20 SECONDS], b [RANGE 20 SECONDS] WHERE a.k = b.k AND a.x < b.x;"""
BUDGET = 4_400_000


def batches() -> list[dict[str, pa.Table]]:
    lots, made = np.random.default_rng(5), []
    for number in range(BATCHES):
        ts = pa.array((number * ROWS + np.arange(ROWS)) * 1000).cast(pa.timestamp("us"))
        texts = [pa.array([f"{n}-" + "long " * 8 for n in lots.integers(0, 20_000, ROWS)]) for _ in "ab"]
        made.append(
            {
                name: pa.table({"k": lots.integers(0, 20_000, ROWS), "t": text, "x": lots.random(ROWS), "ts": ts})
                for name, text in zip("ab", texts, strict=True)
            }
        )
    return made


@pytest.mark.parametrize("crashes", [0.0, 0.3])
def test_shards_spill_and_answer_alike(crashes: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with Session() as session:
        session.execute(STREAMS.format(", format = 'memory'", ", format = 'memory'") + JOIN.format(""))
        for batch in batches():
            for name, rows in batch.items():
                session.push(name, rows)
            session.step()
        session.run(once=True, final=False)
        right, needed = session.queries["q"].table(), session.stats()["peak_state_bytes"]
    assert needed > 1.4 * BUDGET
    spills = JOIN.format(f"WITH (memory_budget = '{BUDGET // 1_000} KB', over_budget = 'spill')")
    job = Simulated(STREAMS.format("", "") + spills, str(tmp_path / "ck"), SHARDS, Random(6), forgetful=0.2)
    spilled = []
    for batch in batches():
        job.run(batch, crashes=crashes)
        notes = [note["statistics"] for note in job.driver.progress.notes.values()]
        assert all(note["state_bytes"] <= BUDGET // SHARDS for note in notes)
        spilled.append(sum(note["spilled_bytes"].get("a", 0) for note in notes))
    assert max(spilled) > 500_000
    job.run(closing=True)
    order = [(name, "ascending") for name in right.column_names]
    assert len(right) > 5_000 and job.table("q").sort_by(order).equals(right.sort_by(order))
    assert list(tmp_path.glob("eddyline-spill-*"))
    job.close()
    gc.collect()
    assert not engines.known(job.checkpoint) and not list(tmp_path.glob("eddyline-spill-*"))
