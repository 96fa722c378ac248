"""Row groups of parquet that no query can use are not read: random files, with and without, against the oracle."""

from __future__ import annotations

import math
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline import Session
from eddyline.connectors.results.output import result_files
from eddyline.settings import Settings
from eddyline.tuning import InputTuning, Tuning
from tests.memory import folder_of_a_case
from tests.oracle.expressions import Call, Col, Expression, Lit, render
from tests.oracle.intake import Epoch, Stream, Values, intake
from tests.oracle.relational import Query, Range, Reference, answer
from tests.seeds import cases, first_seed

START = 1_700_000_000_000_000
KINDS = {"k": "BIGINT", "x": "DOUBLE", "t": "STRING"}
WORDS = ("", "a", "ab", "abc", "b", "ä", "z" * 300)


def column_values(random: Random, name: str, clustered: bool, at: int) -> object:
    if random.random() < (0.05 if clustered else 0.2):
        return None
    near = at if clustered else random.randrange(8)
    if name == "k":
        return near * 10 + random.randrange(2)
    if name == "x":
        return random.choice((math.nan, math.inf, -0.0)) if random.random() < 0.05 else near + random.choice((0, 0.5))
    return WORDS[near % len(WORDS)]


def rows_of(random: Random) -> list[Values]:
    """Rows whose values stay near each other over stretches; out of order by less than two seconds."""
    clustered, ordered = random.random() < 0.8, random.random() < 0.6
    found, ts = [], START
    for number in range(random.randrange(0, 60)):
        ts += random.choice((0, 1_000, 500_000))
        shown = ts if ordered else ts - random.randrange(1_999_000)
        values = {name: column_values(random, name, clustered, number // 12) for name in KINDS}
        found.append({**values, "ts": shown})
    return found


def write(random: Random, folder: Path, rows: list[Values]) -> None:
    """Some files, each with types of its own."""
    folder.mkdir()
    cut = sorted(random.randrange(len(rows) + 1) for _ in range(random.randrange(3)))
    for number, (begin, end) in enumerate(zip([0, *cut], [*cut, len(rows)], strict=True)):
        part = rows[begin:end]
        times = pa.array([row["ts"] for row in part], pa.int64()).cast(pa.timestamp("us"))
        columns = {
            "k": pa.array([row["k"] for row in part], random.choice((pa.int64(), pa.int64(), pa.int8(), pa.uint32()))),
            "x": pa.array([row["x"] for row in part], random.choice((pa.float64(), pa.float64(), pa.float32()))),
            "t": pa.array([row["t"] for row in part], pa.string()),
            "ts": times.cast(random.choice((pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("us", "UTC")))),
        }
        if random.random() < 0.2:
            columns["t"] = columns["t"].dictionary_encode()
        if random.random() < 0.15:
            # Read as numbers, whose order is another one.
            columns["k"] = columns["k"].cast(pa.string())
        names = random.sample(list(columns), len(columns))
        table = pa.table({name.upper() if random.random() < 0.2 else name: columns[name] for name in names})
        statistics: bool | list[str] = True if random.random() < 0.8 else random.choice((False, ["k"], ["ts"]))
        parquet.write_table(
            table, folder / f"{number}.parquet", row_group_size=random.choice((3, 6, 12)), write_statistics=statistics
        )


def condition(random: Random, alias: str, deep: int = 2) -> Expression:
    if deep and random.random() < 0.4:
        parts = tuple(condition(random, alias, deep - 1) for _ in range(2))
        return random.choice((Call("and", parts), Call("or", parts), Call("not", parts[:1])))
    name = random.choice(list(KINDS))
    column = Col(alias, name, KINDS[name])
    if random.random() < 0.15:
        return Call(random.choice(("is_null", "is_not_null")), (column,))
    value = {
        "k": random.randrange(60),
        "x": random.choice((random.randrange(6) / 2, math.nan)),
        "t": random.choice(WORDS),
    }
    literal = Lit(value[name], KINDS[name])
    if name == "x" and math.isnan(literal.value):  # type: ignore[arg-type]
        literal = Lit(2.5, "DOUBLE")
    return Call(random.choice(("=", "=", "<>", "<", "<=", ">", ">=")), (column, literal))


def plain(value: object) -> object:
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def run(
    folder: Path, statements: list[str], row_groups: str
) -> tuple[list[tuple[object, ...]], dict[str, dict[str, int]]]:
    settings = Settings(tuning=Tuning(input=InputTuning(least_looked_at=0)))
    with Session(settings, out=str(folder / row_groups)) as session:
        session.execute(f"SET experiment.row_groups = '{row_groups}'; SET epoch_rows = 7;")
        for statement in statements:
            session.execute(statement)
        session.run()
        counts, rows_in = session.stats()["row_groups"], session.stats()["rows_in"]
    files = result_files(str(folder / row_groups / "q"))
    rows = [row for _, _, file in files for row in parquet.read_table(file).to_pylist()]
    found = [tuple(plain(value) for name, value in row.items() if name != "_ts") for row in rows]
    # The order of the combinations of one row is free.
    return sorted(found, key=repr), {**counts, "rows_in": rows_in}


def sql(name: str, folder: Path) -> str:
    return (
        f"CREATE STREAM {name} (k BIGINT, x DOUBLE, t STRING, ts TIMESTAMP) WITH (format = 'parquet', "
        f"path = '{folder / name}', time = 'ts', lateness = '2 seconds')"
    )


@pytest.mark.parametrize("seed", range(first_seed(71_000), first_seed(71_000) + cases(120, soak=2000)))
def test_skipping_changes_no_answer(seed: int) -> None:
    random = Random(seed)
    with folder_of_a_case() as directory:
        folder, names = Path(directory), ["a", "b"][: random.choice((1, 2))]
        rows = {name: rows_of(random) for name in names}
        for name in names:
            write(random, folder / name, rows[name])
        where = [condition(random, name) for name in names]
        if len(names) == 2 and random.random() < 0.7:
            where.append(Call("=", (Col("a", "k", "BIGINT"), Col("b", "k", "BIGINT"))))
        outputs = tuple((f"{name}_{c}", Col(name, c, kind)) for name in names for c, kind in KINDS.items())
        references = tuple(Reference(name, name, Range(3_000_000)) for name in names)
        taken = intake(
            [Stream(name, lateness=2_000_000) for name in names], [Epoch(rows, closing=True)], frozenset(names)
        )
        found = answer(Query(references, tuple(where), outputs), taken.rows)
        expected = sorted((tuple(map(plain, one.values)) for one in found), key=repr)
        select = ", ".join(f"{render(e)} AS {name}" for name, e in outputs)
        sources = ", ".join(f"{name} [RANGE 3 SECONDS]" for name in names)
        conditions = " AND ".join(f"({render(part)})" for part in where)
        statements = [
            *(sql(name, folder) for name in names),
            f"CREATE QUERY q AS SELECT {select} FROM {sources} WHERE {conditions}",
        ]
        with_skipping, counts = run(folder, statements, "on")
        without, all_read = run(folder, statements, "off")
        assert with_skipping == expected, conditions
        assert without == expected
        assert counts["rows_in"] == all_read["rows_in"] == {name: len(rows[name]) for name in names}
        assert all("skipped" not in all_read.get(name, {}) for name in names)
