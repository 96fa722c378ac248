"""Results that leave a shard's epoch in pieces: staged as they come, one file per query and shard, and the same
answers."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from eddyline.settings import Settings
from eddyline.tuning import PatternTuning, Tuning
from tests.spark.simulated import Simulated

SCRIPT = """
CREATE STREAM a (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (time = 'ts');
CREATE STREAM b (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (time = 'ts');
CREATE QUERY q AS SELECT a.k, a.v, b.v AS w FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR] WHERE a.k = b.k;
CREATE QUERY n AS SELECT a.k, COUNT(*) AS n FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR] WHERE a.k = b.k GROUP BY a.k EMIT EVERY 1 SECOND;
CREATE QUERY even AS SELECT v FROM a WHERE v % 2 = 0;
"""
STREAMS = SCRIPT.split("CREATE QUERY", 1)[0]
OUTER = (
    STREAMS
    + "CREATE QUERY q AS SELECT a.k, a.v, b.v AS w FROM a [RANGE 1 HOUR] LEFT JOIN b [RANGE 1 HOUR] ON a.k = b.k;"
)
ROWS = 120


def run(
    folder: Path, shards: int, settings: Settings, crashes: float = 0.0, script: str = SCRIPT
) -> tuple[dict[str, list[tuple[object, ...]]], int]:
    """The results of each query, and the most result rows that a shard has held."""
    job = Simulated(script, str(folder), shards, Random(5), forgetful=0.4 if crashes else 0.0, settings=settings)
    for begin in (0, ROWS // 2):
        number = np.arange(begin, begin + ROWS // 2)
        tables = {
            name: pa.table(
                {"k": np.where(number % 5, 1, 2), "v": number, "ts": pa.array(number * 50_000 + at, pa.timestamp("us"))}
            )
            for at, name in enumerate("ab")
        }
        job.run(tables, crashes=crashes)
    job.run(closing=True, crashes=crashes)
    found = {name: [*zip(*sink.table().to_pydict().values(), strict=True)] for name, sink in job.sinks.items()}
    return found, max(note["statistics"]["further"]["results_held"] for note in job.driver.progress.notes.values())


@pytest.mark.parametrize("shards", [1, 3])
def test_shards_stage_results_in_pieces(shards: int, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    plain, whole = run(tmp_path / "whole", shards, Settings())
    tiny, held = run(tmp_path / "tiny", shards, Settings(tuning=Tuning(results_held=50), most_results=60))
    assert plain.keys() == tiny.keys() and len(plain["q"]) > 5_000
    for name, rows in plain.items():
        assert sorted(rows, key=repr) == sorted(tiny[name], key=repr)
        assert [row[-1] for row in rows] == [row[-1] for row in tiny[name]]
    # Where filters make more than a piece at once, they are held until they leave.
    assert held <= 4 * 50 + ROWS < whole
    said = [record.getMessage() for record in caplog.records if record.name == "eddyline.results"]
    assert (
        len(said) == 1
        and "query q: one row of stream " in said[0]
        and "with k = 1 makes 61 results; most_results is 60" in said[0]
    )


def test_a_shard_warns_of_an_event_with_very_many_matches(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    script = STREAMS + "CREATE QUERY q AS EVENT SEQ(1 x, 1 y, 2 z) FROM a TYPE k RETURN x.v AS v;"
    tuning = Tuning(patterns=PatternTuning(matches_at_once=50, many_matches=200))
    found, _ = run(tmp_path / "warned", 2, Settings(tuning=tuning), script=script)
    said = [record.getMessage() for record in caplog.records if record.name == "eddyline.results"]
    # The first event of type 2 after 24 of type 1.
    assert (
        said == ["query q: one event of stream a completes 276 matches; most_matches is 200"] and len(found["q"]) > 276
    )
    with pytest.raises(Exception, match="query q: one event of stream a completes more than 200 matches"):
        run(tmp_path / "stopped", 2, Settings(tuning=tuning, most_matches=200), script=script)


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("crashes", [0.0, 0.5])
def test_shards_stage_results_of_outer_joins_in_pieces(shards: int, crashes: float, tmp_path: Path) -> None:
    plain, whole = run(tmp_path / "whole", shards, Settings(), script=OUTER)
    tiny, held = run(tmp_path / "tiny", shards, Settings(tuning=Tuning(results_held=50)), crashes, OUTER)
    assert plain == tiny and len(plain["q"]) > 5_000
    # Beside the pieces those of the newest instant wait.
    assert held <= 6 * 50 + ROWS < whole


def test_batches_that_run_again_send_every_result_once(tmp_path: Path) -> None:
    plain, _ = run(tmp_path / "whole", 2, Settings())
    tiny, _ = run(tmp_path / "tiny", 2, Settings(tuning=Tuning(results_held=50)), crashes=0.5)
    assert {name: sorted(rows, key=repr) for name, rows in plain.items()} == {
        name: sorted(rows, key=repr) for name, rows in tiny.items()
    }
