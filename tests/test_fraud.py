"""The example of card fraud: DuckDB gives the same rows for each of its nine queries.

The job runs from the command line over generated files; `oracle/fraud.sql` computes the same from these files in a batch.
It finds by itself which rows cannot be read and which are late. All columns are compared, `_ts` and `_op` too, a row
that occurs twice counts twice, and `_ts` never decreases. Two things are left out:

- `_ts` of `once`, which is ON CHANGE: the instant depends on epochs, the rows do not;
- rows with a `_ts` after the newest row of what the query reads: there the way in which the run ends decides whether a window closes.

DuckDB has no changelogs, patterns and requests. For `busy` it computes the table at each instant of EVERY, and the changes are
the differences of neighbouring tables. The pattern is a join with NOT EXISTS, and the requests are a join with their rows.
"""

from __future__ import annotations

import datetime
import re
import sys
from pathlib import Path

import duckdb
import pyarrow.parquet as parquet
import pytest

from eddyline.cli.__main__ import main
from tests import forks

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "examples" / "fraud"
#: By query, what DuckDB computes over whole files; `setup` reads them.
EXPECTED = {
    part.split("\n", 1)[0]: part.split("\n", 1)[1].strip().rstrip(";")
    for part in re.split(r"^-- (?=[a-z]+$)", (ROOT / "tests" / "oracle" / "fraud.sql").read_text(), flags=re.M)[1:]
}
QUERIES = ["large", "turnover", "abroad", "jumps", "once", "tried", "unconfirmed", "busy", "audits"]


def generate(folder: Path, transactions: int) -> None:
    command = [sys.executable, str(FOLDER / "generate.py"), "--transactions", str(transactions), "--out", str(folder)]
    forks.run(command, check=True, timeout=120)


def rows_of(path: str) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in parquet.read_table(path).to_pylist()]


def compare(folder: Path, transactions: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Compare all queries, and return what `docs/fraud.md` says of their numbers."""
    monkeypatch.chdir(folder)
    generate(folder / "data", transactions)
    assert main(["run", str(FOLDER / "fraud.sql"), "--once", "--out", "results", "--quiet"]) == 0
    database = duckdb.connect()
    database.execute(EXPECTED["setup"])
    [(paid,)] = database.sql("SELECT max(ts) FROM transactions").fetchall()
    ten_minutes = datetime.timedelta(minutes=10)
    ends = {"turnover": datetime.datetime.max, "unconfirmed": datetime.datetime.max}
    ends["busy"] = datetime.datetime.min - (datetime.datetime.min - paid) // ten_minutes * ten_minutes

    def order(row: tuple[object, ...]) -> str:
        return repr(row)

    said = []
    for query in QUERIES:
        # The run closes the last windows; EVERY ends at the first multiple of its period at or after the newest row.
        newest = ends.get(query, paid)
        answered = rows_of(f"results/{query}")
        times = [row[-1] for row in answered]
        assert times == sorted(times), query
        if query == "once":
            answered = [row[:-1] for row in answered]
        else:
            answered = [row for row in answered if isinstance(row[-1], datetime.datetime) and row[-1] <= newest]
        expected = [row for row in database.sql(EXPECTED[query]).fetchall() if query == "once" or row[-1] <= newest]
        assert len(expected) > 10, query
        assert sorted(answered, key=order) == sorted(expected, key=order), query
        said.append(f"{query}: {len(expected):,} results")

    dead = parquet.read_table("results/_dead_letter/transactions").to_pylist()
    late = [int(row["id"]) for row in dead if row["_reason"].startswith("late")]
    bad = [int(row["id"]) for row in dead if row["_reason"].startswith("bad")]
    assert len(late) + len(bad) == len(dead)
    outside = {
        "late": "SELECT id FROM readable ANTI JOIN transactions USING (line) ORDER BY id",
        "bad": "SELECT CAST(id AS BIGINT) AS id FROM arrived ANTI JOIN readable USING (line) ORDER BY id",
    }
    for kind, ids in {"late": late, "bad": bad}.items():
        assert sorted(ids) == [row[0] for row in database.sql(outside[kind]).fetchall()] != [], kind
        said.append(f"{len(ids)} {kind} rows of transactions")
    return said


def test_nine_queries_answer_as_duckdb_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compare(tmp_path, 12_000, monkeypatch)


@pytest.mark.long
def test_nine_queries_over_a_whole_day_answer_as_duckdb_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "fraud.md").read_text()
    assert [line for line in compare(tmp_path, 50_000, monkeypatch) if line not in page] == []


def test_the_page_shows_the_statements_of_the_job() -> None:
    page = (ROOT / "docs" / "fraud.md").read_text()
    shown = "\n\n".join(re.findall(r"```sql\n(.*?)```", page, flags=re.S))
    job = "\n".join((FOLDER / "fraud.sql").read_text().splitlines()[3:])
    assert shown.split() == job.split()


def test_the_data_are_the_same_each_time(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        generate(tmp_path / folder, 2_000)
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert files == ["audits.csv", "cards.csv", "confirmations.csv", "transactions.csv"]
    assert all((tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes() for name in files)
