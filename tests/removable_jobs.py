"""Small jobs whose answers do not depend on how they are computed: `test_removable.py` runs them with a package without
one feature.

python removable_jobs.py FOLDER [JOB …]     runs the jobs that are named, or all, and writes FOLDER/answers.json
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from eddyline import Session
from eddyline.cli.__main__ import main

STREAMS = "; ".join(
    f"CREATE STREAM {name} (k BIGINT, v BIGINT, type STRING, ts TIMESTAMP) WITH (time = 'ts'{more})"
    for name, more in (("a", ""), ("b", ""), ("c", ""), ("p", ", remember = '1 day'"), ("q", ", remember = '1 day'"))
)
#: Epochs, and rows per stream in each.
EPOCHS, ROWS = 4, 120
SECOND = 1_000_000

Rows = list[dict[str, object]]


def rows(stream: int, epoch: int) -> Rows:
    """Four rows a second; keys and values follow no order."""
    found: Rows = []
    for number in range(epoch * ROWS, (epoch + 1) * ROWS):
        mixed = (number * 7919 + stream * 104729) % 10007
        found.append({"k": mixed % 17, "v": mixed % 101, "type": "ABC"[mixed % 3], "ts": number * SECOND // 4 + stream})
    return found


def answered(*queries: str, names: str = "abc", settings: dict[str, str] | None = None) -> list[list[str]]:
    """The results of queries over streams that are pushed epoch by epoch, as sorted lines."""
    session = Session()
    for name, value in (settings or {}).items():
        session.set(name, value)
    session.execute(STREAMS)
    for number, text in enumerate(queries):
        session.query(f"q{number}", text)
    for epoch in range(EPOCHS):
        for number, name in enumerate(names):
            session.push(name, rows(number, epoch))
        session.step()
    session.run()
    session.stats()
    return [
        sorted(json.dumps(row, default=str) for row in session.queries[f"q{n}"].table().to_pylist())
        for n in range(len(queries))
    ]


def resumed(folder: Path) -> list[list[str]]:
    """A session that is left after two epochs, and another one that goes on from its checkpoint."""
    texts = [
        "SELECT a.k, a.v, b.v AS w FROM a [RANGE 3 SECONDS], b [RANGE 3 SECONDS] WHERE a.k = b.k",
        "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM a [RANGE 5 SECONDS] GROUP BY k",
    ]
    found: list[list[str]] = [[], []]
    for epochs in (range(2), range(2, EPOCHS)):
        with Session(checkpoint=str(folder / "checkpoint")) as session:
            session.execute(STREAMS)
            for number, text in enumerate(texts):
                session.query(f"q{number}", text)
            for epoch in epochs:
                for number, name in enumerate("ab"):
                    session.push(name, rows(number, epoch))
                session.step()
            for number, kept in enumerate(found):
                kept += [json.dumps(row, default=str) for row in session.queries[f"q{number}"].table().to_pylist()]
    return [sorted(kept) for kept in found]


def printed(*arguments: str) -> str:
    """What a command prints."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main(list(arguments)) == 0
    return out.getvalue().replace(os.getcwd(), "")


def of_commands(folder: Path) -> Iterator[str]:
    """A job file, run and explained by the command line."""
    lines = ["k,v,ts", *(f"{n % 5},{n},2024-01-01 00:00:{n:02d}" for n in range(40))]
    (folder / "s.csv").write_text("\n".join(lines) + "\n")
    job = folder / "job.sql"
    job.write_text(f"""
        CREATE STREAM s (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (time = 'ts', format = 'csv', path = '{folder / "s.csv"}');
        CREATE QUERY large AS SELECT k, v FROM s WHERE v > 30;
        CREATE QUERY pairs AS SELECT x.v, y.v AS w FROM s [RANGE 9 SECONDS] x, s [RANGE 9 SECONDS] y WHERE x.k = y.k AND x.v < y.v;
    """)
    yield printed("check", str(job))
    yield printed("explain", str(job))
    out, kept, stats = str(folder / "out"), str(folder / "kept"), str(folder / "stats.json")
    yield printed("run", str(job), "--once", "--quiet", "--out", out, "--checkpoint", kept, "--stats", stats)
    yield str(json.loads(Path(stats).read_text())["results"])
    yield str(sorted(json.loads(printed("state", "--checkpoint", kept, "--json"))))


JOBS: dict[str, Callable[[Path], object]] = {
    "filters": lambda folder: answered(
        *(f"SELECT k, v FROM a WHERE v > {n} AND k <> {n % 7}" for n in range(0, 90, 10))
    ),
    "two-way": lambda folder: answered(
        "SELECT a.k, a.v, b.v AS w FROM a [RANGE 3 SECONDS], b [RANGE 3 SECONDS] WHERE a.k = b.k",
        "SELECT a.k, a.v, b.v AS w FROM a [RANGE 6 SECONDS], b [RANGE 6 SECONDS] WHERE a.k = b.k AND a.v > 50",
        "SELECT a.v, b.v AS w FROM a [RANGE 2 SECONDS], b [RANGE 2 SECONDS] WHERE a.v < b.v - 60",
    ),
    "three-way": lambda folder: answered(
        "SELECT a.k, a.v, b.v AS w, c.v AS x FROM a [RANGE 4 SECONDS], b [RANGE 4 SECONDS], c [RANGE 4 SECONDS] "
        "WHERE a.k = b.k AND b.v = c.v",
        settings={"plan": "((a b) c)"},
    ),
    "groups": lambda folder: answered(
        "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM a [RANGE 5 SECONDS] GROUP BY k",
        "SELECT a.k, MAX(b.v) AS m FROM a [RANGE 3 SECONDS], b [RANGE 3 SECONDS] WHERE a.k = b.k GROUP BY a.k",
    ),
    "outer": lambda folder: answered(
        "SELECT a.k, a.v, b.v AS w FROM a [RANGE 1 SECOND] LEFT JOIN b [RANGE 1 SECOND] ON a.k = b.k"
    ),
    "resumed": resumed,
    "commands": lambda folder: list(of_commands(folder)),
    "ranking": lambda folder: answered(
        "SELECT k, v FROM a QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) = 1"
    ),
    "patterns": lambda folder: answered(
        "EVENT SEQ(A x, NOT(C), B y) FROM a TYPE type PARTITION BY k WITHIN 3 SECONDS RETURN x.v AS v, y.v AS w"
    ),
}


if __name__ == "__main__":
    place = Path(sys.argv[1]).resolve()
    found = {}
    for name in sys.argv[2:] or JOBS:
        (place / name).mkdir()
        found[name] = JOBS[name](place / name)
    (place / "answers.json").write_text(json.dumps(found))
