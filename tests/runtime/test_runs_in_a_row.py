"""Several runs of one session: each goes on where the one before it has ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline import Session
from eddyline.errors import CheckpointProblem, UserError

JOB = """
SET epoch_rows = 7;
CREATE STREAM a (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = '{folder}/a', time = 'ts');
CREATE STREAM p (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (time = 'ts');
CREATE QUERY pairs AS SELECT a.k, a.v, p.v AS w FROM a [RANGE 30 SECONDS], p [RANGE 30 SECONDS] WHERE a.k = p.k;
CREATE QUERY sums AS SELECT k, SUM(v) AS v FROM a [RANGE 20 SECONDS] GROUP BY k EMIT EVERY 5 SECONDS;
CREATE SINK every FOR ALL WITH (format = 'memory');
"""
PARTS = 3


def part(number: int, first: int = 0) -> list[tuple[int, int, int]]:
    return [(n % 4, n, (n + 1) * 1_000_000) for n in range(number * 20 + first, (number + 1) * 20)]


def write(folder: Path, number: int) -> None:
    (folder / "a").mkdir(parents=True, exist_ok=True)
    k, v, ts = zip(*part(number), strict=True)
    parquet.write_table(
        pa.table({"k": k, "v": v, "ts": pa.array(ts, pa.timestamp("us"))}), folder / "a" / f"{number}.parquet"
    )


def written(folder: Path) -> dict[str, list[str]]:
    return {
        path.name: sorted(map(str, parquet.read_table(path).to_pylist())) for path in sorted((folder / "out").iterdir())
    }


def declared(folder: Path, **options: Any) -> Session:
    session = Session(out=str(folder / "out"), **options)
    session.execute(JOB.format(folder=folder))
    return session


def in_one_run(folder: Path) -> dict[str, list[str]]:
    for number in range(PARTS):
        write(folder, number)
    with declared(folder) as session:
        for number in range(PARTS):
            session.push("p", part(number))
        session.run(final=False)
    return written(folder)


@pytest.mark.parametrize("checkpoint", [False, True])
def test_runs_in_a_row_answer_as_one(tmp_path: Path, checkpoint: bool) -> None:
    right = in_one_run(tmp_path / "one")
    folder = tmp_path / "several"
    write(folder, 0)
    taken: dict[str, list[str]] = {"pairs": [], "sums": []}
    with declared(folder, **({"checkpoint": str(folder / "state")} if checkpoint else {})) as session:
        queries = dict(session.queries)
        for number in range(PARTS):
            if number:
                write(folder, number)
            session.push("p", part(number))
            session.run(final=False)
            for name, query in queries.items():
                taken[name] += map(str, query.take().drop_columns("_ts").to_pylist())
        assert session.sink("every").table().num_rows == sum(map(len, taken.values()))  # type: ignore[attr-defined]
        assert session.stats()["rows_in"] == {"a": 20 * PARTS, "p": 20 * PARTS}
    assert written(folder) == right
    assert {name: len(rows) for name, rows in taken.items()} == {name: len(rows) for name, rows in right.items()}


def test_rows_below_the_frontier_of_an_earlier_run_are_late(tmp_path: Path) -> None:
    write(tmp_path, 1)
    with declared(tmp_path) as session:
        session.run(final=False)
        write(tmp_path, 0)
        session.run(final=False)
        assert session.dead_letters("a").num_rows == 20


def test_pushed_rows_come_with_the_next_results(tmp_path: Path) -> None:
    write(tmp_path, 0)
    with declared(tmp_path) as session:
        session.push("p", part(0))
        session.run(final=False)
        found = session.queries["pairs"].table().num_rows
        write(tmp_path, 1)
        session.push("p", part(1))
        session.run(final=False)
        session.push("p", part(2))
        session.step()
        session.run(final=False)
        assert session.queries["pairs"].table().num_rows > found > 0


def test_a_session_goes_on_after_stop(tmp_path: Path) -> None:
    right = in_one_run(tmp_path / "one")
    folder = tmp_path / "several"
    write(folder, 0)
    session = declared(folder)
    session.push("p", part(0))
    session.step()
    session.stop(final=False)
    with pytest.raises(UserError, match="has ended"):
        session.push("p", part(1))
    for number in range(1, PARTS):
        write(folder, number)
    session.start()
    for number in range(1, PARTS):
        session.push("p", part(number))
    session.stop(final=False)
    session.run(final=False)
    assert written(folder) == right


def test_a_checkpoint_that_another_session_has_continued_is_refused(tmp_path: Path) -> None:
    write(tmp_path, 0)
    session = declared(tmp_path, checkpoint=str(tmp_path / "state"))
    session.run()
    with declared(tmp_path, checkpoint=str(tmp_path / "state")) as other:
        write(tmp_path, 1)
        other.run()
    with pytest.raises(CheckpointProblem, match="not the one"):
        session.run()
