"""`eddyline state`: what a checkpoint holds, of both engines, whatever happened to the job."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eddyline import Session
from eddyline.cli.__main__ import main
from eddyline.runtime.sharded.job.ledger import FORMAT, Ledger, LedgerEntry
from eddyline.runtime.sharded.output.parcels import note as parcel
from eddyline.runtime.sharded.storage.heads import Head, Heads


def note(rows: int, waiting: int, frontier: int) -> dict[str, object]:
    return {"statistics": {"live_rows": rows, "live_bytes": rows * 10}, "waiting": waiting, "frontier": frontier}


def spark_checkpoint(folder: Path, committed: int, written: int) -> None:
    """Two shards; `pairs` is cut in two, `odd` lies on the second alone, `old` has gone."""
    (folder / "eddyline").mkdir(parents=True)
    queries = {
        "pairs": LedgerEntry("SELECT 1", shares=[0, 2]),
        "odd": LedgerEntry("SELECT 1", shares=[1, 1]),
        "old": LedgerEntry("SELECT 1", shares=[0, 2], state="dropped"),
    }
    Ledger(str(folder), 2, {}, queries).write()
    (folder / "commits").mkdir()
    for batch in range(committed + 1):
        (folder / "commits" / str(batch)).touch()
        (folder / "commits" / f".{batch}.crc").touch()
    for batch in range(written + 1):
        notes = [parcel(shard, note(100 * batch + shard, batch, 1_000_000 * batch)) for shard in (0, 1)]
        Heads(str(folder)).write(Head(batch, "", "", {}, {}, notes))


def shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> dict:
    assert main(["state", "--checkpoint", str(folder), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_spark_checkpoint_after_a_crash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Batch 8 wrote its results and died before it was committed: it has not happened."""
    spark_checkpoint(tmp_path, committed=7, written=8)
    assert shown(tmp_path, capsys) == {
        "engine": "spark",
        "format": FORMAT,
        "epoch": 7,
        "shards": [
            {"shard": 0, "rows": 700, "waiting": 7, "bytes": 7000, "frontier": 7_000_000, "queries": ["pairs"]},
            {"shard": 1, "rows": 701, "waiting": 7, "bytes": 7010, "frontier": 7_000_000, "queries": ["pairs", "odd"]},
        ],
    }
    assert len(list((tmp_path / "eddyline" / "heads").iterdir())) == 2


def test_a_table_for_people(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    spark_checkpoint(tmp_path, committed=2, written=2)
    assert main(["state", "--checkpoint", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert f"spark checkpoint, format {FORMAT}, after batch 2" in said
    assert "1970-01-01 00:00:02.000" in said and "pairs, odd" in said
    assert "401" in said  # the rows of both shards


def test_a_spark_checkpoint_without_a_batch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spark_checkpoint(tmp_path, committed=-1, written=-1)
    found = shown(tmp_path, capsys)
    assert found["epoch"] == -1 and [shard["rows"] for shard in found["shards"]] == [0, 0]


def test_an_embedded_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Session(checkpoint=str(tmp_path)) as session:
        session.execute("CREATE STREAM bids (item BIGINT, price DOUBLE, ts TIMESTAMP) WITH (time='ts')")
        session.query(
            "pairs",
            "SELECT x.item FROM bids [RANGE 5 SECONDS] x, bids [RANGE 5 SECONDS] y WHERE x.item = y.item AND x.price < y.price",
        )
        session.push("bids", [(1, 50.0, 0), (2, 60.0, 4_000_000), (1, 70.0, 8_000_000)])
        session.step()
    found = shown(tmp_path, capsys)
    (shard,) = found["shards"]
    assert found["engine"] == "embedded" and found["format"] == FORMAT
    assert shard["frontier"] == 8_000_000 and shard["queries"] == ["pairs"]
    # The row at 8 s waits; of those below the frontier, the one at 4 s is in its window still.
    assert shard["waiting"] == 1 and shard["rows"] >= 1 and shard["bytes"] > 0


def test_no_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["state", "--checkpoint", str(tmp_path)]) == 2
    assert "there is no checkpoint" in capsys.readouterr().err
