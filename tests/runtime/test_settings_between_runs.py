"""Settings that change between two sessions on one checkpoint, over real files: what the page of checkpoints says of
them."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow.parquet as parquet
import pytest

from eddyline import Session
from eddyline.connectors.results.output import result_files
from eddyline.errors import CheckpointProblem, DataProblem, EddylineError, PlanProblem
from eddyline.settings import Settings
from tests.property.changed_settings import NAMES, QUERIES, answers, differing, job_text, random_epochs
from tests.property.compare import plain_rows
from tests.property.test_changed_settings import random_settings

JOB = """
CREATE STREAM a (k BIGINT, v STRING, ts TIMESTAMP) WITH (format = 'csv', path = '{0}/a', time = 'ts');
CREATE STREAM b (k BIGINT, v STRING, ts TIMESTAMP) WITH (format = 'csv', path = '{0}/b', time = 'ts', key = 'k');
{1}
"""
PAIRS = "CREATE QUERY pairs AS SELECT a.k, b.v FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR] WHERE a.k = b.k AND a.v > 'k';"


def lines(folder: Path, stream: str, number: int, *rows: str) -> None:
    (folder / stream).mkdir(exist_ok=True)
    (folder / stream / f"{number}.csv").write_text("k,v,ts\n" + "".join(f"{row}\n" for row in rows))


def ran(folder: Path, settings: str = "", queries: str = PAIRS) -> list[dict[str, object]]:
    """One bounded run on the checkpoint; all results so far."""
    with Session(checkpoint=str(folder / "state"), out=str(folder / "out")) as session:
        session.execute(settings + JOB.format(folder, queries))
        session.run(once=True)
    files = result_files(str(folder / "out" / "pairs"))
    return plain_rows(parquet.read_table(path) for _, _, path in files)


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    lines(tmp_path, "a", 0, "1,x,2024-01-01 00:00:01", "2,a,2024-01-01 00:00:02")
    lines(tmp_path, "b", 0, "3,x,2024-01-01 00:00:03")
    assert ran(tmp_path) == []
    return tmp_path


def test_filters_hold_for_rows_that_are_stored(begun: Path) -> None:
    lines(begun, "b", 1, "1,one,2024-01-01 00:00:05", "2,two,2024-01-01 00:00:06")
    assert [
        row["v"] for row in ran(begun, "SET plan = 'bjtree'; SET jit = 'off'; SET share = 'off'; SET heralds = 'off';")
    ] == ["one"]


@pytest.mark.parametrize(
    ("setting", "line", "message"),
    [
        ("on_late", "9,x,2024-01-01 00:00:00", "late"),
        ("on_bad", "nine,x,2024-01-01 00:00:09", "cannot be read"),
        ("on_violation", "3,x,2024-01-01 00:00:09", "promise"),
    ],
)
def test_rows_that_cannot_take_part(begun: Path, setting: str, line: str, message: str) -> None:
    lines(begun, "b", 1, line)
    with pytest.raises(DataProblem, match=message):
        ran(begun, f"SET {setting} = 'error';")
    ran(begun)
    dead = [parquet.read_table(path) for path in (begun / "out").rglob("*.parquet") if path.parent.name == "b"]
    assert sum(map(len, dead)) == 1


def test_queries_that_are_refused_or_warned_of(begun: Path) -> None:
    grows = PAIRS + "CREATE QUERY grows AS SELECT a.k FROM a, b WHERE a.v = b.v;"
    never = (
        PAIRS
        + "CREATE QUERY never AS EVENT SEQ(1 x, 2 y) FROM a TYPE k; CREATE CONSTRAINTS c ON a TYPE k (EXCLUSIVE(1, 2));"
    )
    with pytest.raises(PlanProblem, match="grow"):
        ran(begun, "SET unbounded = 'error';", grows)
    with pytest.raises(EddylineError):
        ran(begun, "SET memory_budget = '1 B';")
    ran(begun, "SET memory_budget = '1 B'; SET over_budget = 'warn';")
    ran(begun, "SET unbounded = 'warn';", grows)
    with pytest.raises(EddylineError, match="never match"):
        ran(begun, "SET unsatisfiable = 'error';", never)


def test_rows_that_lie_on_disk_from_another_run_on(tmp_path: Path) -> None:
    """Rows go to disk in the second run and come back in the third: results are those of one run."""

    def rows(stream: str, run: int) -> list[str]:
        keys = range(6_000) if stream == "a" else range(run, 6_000, 3)
        return [f"{k},{'x' * 200}{k},2024-01-01 00:00:{10 * run + int(stream == 'b') + 1:02}" for k in keys]

    short = PAIRS.replace("1 HOUR", "1 MINUTE").replace("a.k,", "a.v AS w,")
    spilling, found, spilled = "SET memory_budget = '500 KB'; SET over_budget = 'spill';", [], []
    for run, settings in enumerate(("", spilling, "")):
        lines(tmp_path, "a", run, *rows("a", run))
        lines(tmp_path, "b", run, *rows("b", run))
        with Session(checkpoint=str(tmp_path / "state"), out=str(tmp_path / "out")) as session:
            session.execute(settings + JOB.format(tmp_path, short))
            session.run(once=True)
            spilled.append(sum(session.stats()["spilled_bytes"].values()))
        found.append(
            sum(parquet.read_table(path).num_rows for _, _, path in result_files(str(tmp_path / "out" / "pairs")))
        )
    # Each key of b comes once, and meets the rows of a of all runs.
    assert found == [2_000, 2 * 4_000, 3 * 6_000]
    assert spilled[0] == spilled[2] == 0 < spilled[1]


def test_a_lease_ends_the_files_of_a_query(begun: Path) -> None:
    lines(begun, "b", 1, "1,one,2024-01-01 00:00:05")
    assert ran(begun, queries=PAIRS.replace("AS", "WITH (lease = 600) AS", 1)) == []
    lines(begun, "b", 2, "4,uno,2024-01-01 00:00:06")
    lines(begun, "a", 1, "4,x,2024-01-01 00:00:07")
    assert [row["v"] for row in ran(begun)] == ["uno"]


def test_constraints_on_and_off_are_two_jobs(tmp_path: Path) -> None:
    rules = PAIRS + "CREATE CONSTRAINTS c ON a TYPE v (EXCLUSIVE('x', 'y'));"
    lines(tmp_path, "a", 0, "1,x,2024-01-01 00:00:01")
    lines(tmp_path, "b", 0, "3,x,2024-01-01 00:00:03")
    ran(tmp_path, "", rules)
    ran(tmp_path, "SET constraints = 'check';", rules)
    with pytest.raises(CheckpointProblem, match="stream a"):
        ran(tmp_path, "SET constraints = 'off';", rules)
    ran(tmp_path, "SET shards = 5;", rules)


@pytest.mark.parametrize("seed", [1])
def test_sessions_that_are_given_up_and_go_on_under_other_settings(tmp_path: Path, seed: int) -> None:
    """Also those that concern epochs, checkpoints and files of results."""
    rng = Random(seed)
    parquet.write_table(NAMES, tmp_path / "names.parquet")
    epochs = random_epochs(rng, 120, 5)
    queries = ("table_of", *sorted(rng.sample([name for name in QUERIES if name != "table_of"], 14)))
    with Session() as session:
        session.execute(job_text(queries, {}, str(tmp_path)))
        for rows in epochs:
            for name, table in rows.items():
                session.push(name, table)
            session.step()
        session.run(final=False)
        right = answers({name: session.queries[name].results() for name in queries})
    for _ in range(40):
        session = Session(Settings(), checkpoint=str(tmp_path / "state"), out=str(tmp_path / "out"))
        session.execute(
            job_text(queries, {**random_settings(rng), "epoch_rows": 20_000, "checkpoint_seconds": 0}, str(tmp_path))
        )
        number = session.driver.epoch
        if number >= len(epochs):
            session.run(once=True)
            session.stop()
            break
        for rows in epochs[number : number + rng.randint(1, 3)]:
            for name, table in rows.items():
                session.push(name, table)
            session.step()
        session._runner.abandon()
    found = {}
    for name in queries:
        files = result_files(str(tmp_path / "out" / name))
        found[name] = [parquet.read_table(path) for _, _, path in files]
    assert not differing(answers(found), right)
    assert right["table_of"]


@pytest.mark.parametrize("shares", [("on", "off", "on"), ("off", "on", "off")])
def test_a_filter_with_a_partitioned_window_goes_on_alone_and_with_others(
    shares: tuple[str, ...], tmp_path: Path
) -> None:
    """With `share` a filter is answered with all filters of its stream, which count no partitions."""
    for run, share in enumerate(shares):
        session = Session(checkpoint=str(tmp_path / "state"), out=str(tmp_path / "out"))
        session.execute(f"""
            SET share = '{share}'; SET checkpoint_seconds = 0;
            CREATE STREAM a (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (time = 'ts');
            CREATE QUERY q AS SELECT k FROM a [PARTITION BY v ROWS 1] a WHERE k % 3 <> 1
        """)
        session.push("a", [(k, k % 2, (10 * run + k) * 1_000_000) for k in range(6)])
        session.step()
        if run < len(shares) - 1:
            session._runner.abandon()
    session.run(once=True)
    assert parquet.read_table(tmp_path / "out" / "q").column("k").to_pylist() == [0, 2, 3, 5] * 3
