"""Lines that end every process that parses them: the same command, started again, goes on without them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from tests import forks

pytestmark = pytest.mark.fault

HOOK = Path(__file__).parent / "poison"
ROWS, PER_FILE = 400, 200
JOB = """
SET epoch_rows = 50;
CREATE STREAM s (note STRING, k BIGINT, xs BIGINT[], ts TIMESTAMP) WITH (format = '{kind}', path = 'in', time = 'ts');
CREATE QUERY q AS SELECT k, note FROM s;
"""
TABLE = """
CREATE TABLE names (k BIGINT, name STRING) WITH (format = '{kind}', path = 'names', refresh = '1 hour');
CREATE QUERY named AS SELECT s.k, n.name FROM s, names n WHERE s.k = n.k;
"""


def write(folder: Path, kind: str, poisonous: dict[int, str]) -> None:
    (folder / "in").mkdir()
    (folder / "job.sql").write_text(JOB.format(kind=kind))
    rows = [
        {"note": poisonous.get(k, f"n{k}"), "k": k, "xs": "[1, 2]", "ts": f"2024-01-01 00:{k // 60:02}:{k % 60:02}"}
        for k in range(ROWS)
    ]
    for first in range(0, ROWS, PER_FILE):
        part, path = rows[first : first + PER_FILE], folder / "in" / f"{first:04}.{kind}"
        if kind == "parquet":
            # Row groups of 50 rows, and batches of one: what comes before a poisonous one is there.
            parquet.write_table(pa.Table.from_pylist(part), path, row_group_size=50)
        elif kind == "csv":
            path.write_text("note,k,xs,ts\n" + "".join(f'{r["note"]},{r["k"]},"{r["xs"]}",{r["ts"]}\n' for r in part))
        else:
            path.write_text("".join(json.dumps({**r, "xs": [1, 2]}) + "\n" for r in part))


def start(folder: Path, poison: str, *more: str) -> tuple[int, str]:
    paths = [str(HOOK), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "EDDYLINE_POISON": poison,
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
    }
    command = [
        sys.executable,
        "-m",
        "eddyline",
        "run",
        "job.sql",
        "--once",
        "--checkpoint",
        "ck",
        "--out",
        "out",
        *(more or ("--engine", "embedded")),
    ]
    call = subprocess.run if "spark" in more else forks.run
    done = call(command, cwd=folder, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def found(folder: Path) -> tuple[list[int], list[dict[str, str]]]:
    keys = parquet.read_table(folder / "out" / "q").column("k").to_pylist()
    letters = folder / "out" / "_dead_letter" / "s"
    return sorted(keys), parquet.read_table(letters).to_pylist() if letters.exists() else []


@pytest.mark.parametrize("kind", [pytest.param("jsonl", marks=pytest.mark.long), "csv"])
def test_a_line_that_ends_the_process_is_survived_at_the_next_start(tmp_path: Path, kind: str) -> None:
    bad = {0: "POISON", 123: "a POISON", 124: "POISON b", 399: "POISON"}
    write(tmp_path, kind, bad)
    poison = f"{kind},{int(signal.SIGSEGV)},POISON"
    # One death for each of the two files. The last start finds the job done.
    said = [start(tmp_path, poison) for _ in range(4)]
    assert [code for code, _ in said] == [-signal.SIGSEGV, -signal.SIGSEGV, 0, 0], said
    keys, dead = found(tmp_path)
    if kind == "jsonl":
        # Few lines at a time are read without Arrow, which finds nothing wrong with them.
        assert (keys, dead) == (list(range(ROWS)), [])
        return
    assert keys == [k for k in range(ROWS) if k not in bad]
    assert {letter["_reason"] for letter in dead} == {
        f"bad: {k // PER_FILE * PER_FILE:04}.csv line {k % PER_FILE + 2}: the parser ends its process with this line: SIGSEGV"
        for k in bad
    }
    assert all("POISON" in letter["note"] for letter in dead) and len(dead) == len(bad)
    assert "ends every process that parses it (SIGSEGV)" in said[2][1]


@pytest.mark.long
def test_what_follows_a_row_group_that_ends_the_process_is_one_dead_letter(tmp_path: Path) -> None:
    write(tmp_path, "parquet", {260: "POISON"})
    codes = []
    while not codes or codes[-1] != 0:
        codes.append(start(tmp_path, f"parquet,{int(signal.SIGABRT)},POISON")[0])
        assert len(codes) < 4
    assert codes == [-signal.SIGABRT, 0]
    keys, dead = found(tmp_path)
    assert keys[:200] == list(range(200)) and keys == list(range(len(keys))) and len(keys) <= 260
    assert [letter["_reason"] for letter in dead] == [
        f"bad: 0200.parquet cannot be read from row {len(keys) - 199} on: the reader ends its process: SIGABRT"
    ]


@pytest.mark.long
def test_a_text_that_ends_the_process_when_it_becomes_a_value(tmp_path: Path) -> None:
    """Arrow's json parser also reads arrays in csv files."""
    write(tmp_path, "csv", {})
    path = tmp_path / "in" / "0200.csv"
    path.write_text(path.read_text().replace('"[1, 2]"', '"[77777]"', 1))
    codes = [start(tmp_path, f"jsonl,{int(signal.SIGSEGV)},77777")[0] for _ in range(2)]
    assert codes == [-signal.SIGSEGV, 0]
    keys, dead = found(tmp_path)
    assert keys == [k for k in range(ROWS) if k != 200] and [letter["note"].split(",")[0] for letter in dead] == [
        "n200"
    ]


def write_names(folder: Path, kind: str, names: list[str]) -> None:
    (folder / "names").mkdir(exist_ok=True)
    path = folder / "names" / f"0.{kind}"
    if kind == "parquet":
        parquet.write_table(pa.table({"k": range(len(names)), "name": names}), path)
    elif kind == "csv":
        path.write_text("k,name\n" + "".join(f"{k},{name}\n" for k, name in enumerate(names)))
    else:
        path.write_text("".join(json.dumps({"k": k, "name": name}) + "\n" for k, name in enumerate(names)))


def table_that_ends_the_process(tmp_path: Path, kind: str, *engine: str) -> None:
    """One that is read at the first start: a refusal. One that is read again: the job goes on with what it has."""
    write(tmp_path, "csv", {})
    with open(tmp_path / "job.sql", "a") as job:
        job.write(TABLE.format(kind=kind))
    good = [f"n{k}" for k in range(100)]
    poison = f"{kind},{int(signal.SIGSEGV)},POISON"
    write_names(tmp_path, kind, [*good[:99], "POISON"])
    said = [start(tmp_path, poison, *engine) for _ in range(3)]
    assert [code for code, _ in said] == [-signal.SIGSEGV, 2, 2], said
    assert "table names cannot be read" in said[1][1] and "process" in said[1][1] and "SIGSEGV" in said[1][1]
    write_names(tmp_path, kind, good)
    assert start(tmp_path, poison, *engine)[0] == 0
    write_names(tmp_path, kind, ["POISON"] * 100)
    (tmp_path / "in" / "0900.csv").write_text('note,k,xs,ts\nn,7,"[1]",2024-01-01 01:00:00\n')
    said = [start(tmp_path, poison, *engine) for _ in range(2)]
    assert [code for code, _ in said] == [-signal.SIGSEGV, 0], said
    assert "table names is not read again" in said[1][1]
    assert sorted(parquet.read_table(tmp_path / "out" / "named").column("name").to_pylist()) == sorted([*good, "n7"])


@pytest.mark.parametrize(
    "kind", ["csv", pytest.param("jsonl", marks=pytest.mark.long), pytest.param("parquet", marks=pytest.mark.long)]
)
def test_a_table_that_ends_the_process_is_refused_at_the_next_start(tmp_path: Path, kind: str) -> None:
    table_that_ends_the_process(tmp_path, kind)


@pytest.mark.long
@pytest.mark.spark
def test_a_table_that_ends_the_driver_of_a_spark_job_is_refused_at_the_next_start(tmp_path: Path) -> None:
    table_that_ends_the_process(tmp_path, "csv", "--engine", "spark", "--master", "local[2]")


@pytest.mark.long
def test_a_value_of_a_json_document_that_ends_the_process(tmp_path: Path) -> None:
    """Documents are read by Python; Arrow's parser reads the arrays in them."""
    write(tmp_path, "jsonl", {})
    (tmp_path / "job.sql").write_text(JOB.format(kind="json"))
    for path in sorted((tmp_path / "in").iterdir()):
        path.rename(path.with_suffix(".json")).write_text(
            "[\n" + ",\n".join(path.with_suffix(".json").read_text().splitlines()) + "]"
        )
    path = tmp_path / "in" / "0200.json"
    path.write_text(path.read_text().replace("[1, 2]", "[77777]", 1))
    codes = [start(tmp_path, f"jsonl,{int(signal.SIGSEGV)},77777")[0] for _ in range(3)]
    assert codes == [-signal.SIGSEGV, 0, 0]
    keys, dead = found(tmp_path)
    assert keys == list(range(200)) and [letter["_reason"] for letter in dead] == [
        "bad: 0200.json cannot be read from row 1 on: the reader ends its process: SIGSEGV"
    ]


def test_a_process_that_is_killed_while_it_parses_loses_no_line(tmp_path: Path) -> None:
    write(tmp_path, "jsonl", {77: "POISON"})
    once = f"jsonl,{int(signal.SIGKILL)},POISON,{tmp_path / 'struck'}"
    assert start(tmp_path, once)[0] == -signal.SIGKILL and list((tmp_path / "ck" / "parsing").iterdir())
    assert start(tmp_path, once)[0] == 0
    assert found(tmp_path) == (list(range(ROWS)), [])
    assert not list((tmp_path / "ck" / "parsing").iterdir())


@pytest.mark.long
@pytest.mark.spark
def test_a_task_of_spark_that_dies_is_tried_again_without_the_line(tmp_path: Path) -> None:
    bad = {0: "POISON", 123: "a POISON", 399: "POISON"}
    write(tmp_path, "csv", bad)
    code, said = start(tmp_path, f"csv,{int(signal.SIGSEGV)},POISON", "--engine", "spark", "--master", "local[2]")
    assert code == 0, said
    keys, dead = found(tmp_path)
    assert keys == [k for k in range(ROWS) if k not in bad] and len(dead) == len(bad)
    assert all(letter["_reason"].endswith("the parser ends its process with this line: SIGSEGV") for letter in dead)
