"""Templates in shards: any template, requests and shards, with workers that forget and drivers that die; answers equal
the oracle's."""

from __future__ import annotations

import uuid
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from eddyline.errors import UserError
from eddyline.language import bind_script
from eddyline.plan.shards.shares import route_all
from eddyline.runtime.control.control_record import request_record
from eddyline.runtime.control.request_answers import wait_for_answers
from tests.oracle.intake import Row
from tests.oracle.templates import answer
from tests.property.compare import canonical, plain_rows
from tests.property.specs import arrow_table
from tests.property.templates import TemplateCase, random_ask, random_template
from tests.property.test_templates import RequestRows, _text, rows_of
from tests.seeds import cases, first_seed
from tests.spark.simulated import Simulated

CASES = cases(40, soak=400)


def asked(job: Simulated, texts: list[str], as_of: str | None = None) -> list[pa.Table]:
    """Ask a simulated job as another process does."""
    token = uuid.uuid4().hex
    job.folder.append(request_record(token, texts, as_of))
    job.settle()
    return wait_for_answers(job.checkpoint, job.folder.folder, token, 0.0)


def compare_asked(
    rng: Random, job: Simulated, case: TemplateCase, rows: list[Row], newest: int, statements: str
) -> None:
    frontier = newest - case.stream.lateness
    asks = [random_ask(rng, case) for _ in range(rng.choice((1, 3)))]
    now = rng.randint(frontier - 1 - case.history, frontier - 1) if rng.random() < 0.5 else frontier - 1
    tables = asked(job, [text for _, text in asks], _text(now) if now < frontier - 1 else None)
    for (ask, text), table in zip(asks, tables, strict=True):
        given = sorted(canonical([row[c] for c in ask.columns]) for row in plain_rows([table]))
        right = sorted(canonical(row) for row in answer(case.template, ask, rows, now))
        assert given == right, f"{text} at {now}\n{statements}"


def check(seed: int, folder: Path) -> None:
    rng = Random(seed)
    case = random_template(rng, 40)
    asking = RequestRows(rng, case)
    statements = ";\n".join([*case.statements(), asking.statement()]) + ";"
    rows, newest, crashes = rows_of(case), None, rng.choice((0.0, 0.3))
    job = Simulated(statements, str(folder / str(seed)), rng.randint(1, 4), rng)
    for arrived in case.epochs:
        newest = max([newest or 0, *(row[-1] for row in arrived)])  # type: ignore[type-var]
        requests = asking.draw(rng, newest)  # type: ignore[arg-type]
        tables = {"s0": arrow_table(case.stream.columns, arrived), "asks": arrow_table(asking.schema(), requests)}
        job.run({name: table for name, table in tables.items() if table.num_rows}, crashes=crashes)
        if rng.random() < 0.4 and newest is not None:
            compare_asked(rng, job, case, rows, newest, statements)  # type: ignore[arg-type]
    job.run(closing=True, crashes=crashes)
    found = plain_rows([job.table("asks")])
    for number, instant, ask in asking.asked:
        mine = [row for row in found if row["id"] == number]
        given = sorted(canonical([row[c] for c in ask.columns]) for row in mine)
        right = sorted(canonical(row) for row in answer(case.template, ask, rows, instant))
        assert given == right, f"request {number} at {instant}: {ask}\n{statements}"
        assert all(row["_ts"] == instant for row in mine)
    assert [row["_ts"] for row in found] == sorted(row["_ts"] for row in found)
    job.close()


@pytest.mark.parametrize("seed", range(first_seed(), first_seed() + CASES))
def test_any_template_in_shards(seed: int, tmp_path: Path) -> None:
    check(seed, tmp_path)


WORLD = """
CREATE STREAM packets (src STRING, dst STRING, len INT, ts TIMESTAMP) WITH (time = 'ts');
CREATE TEMPLATE traffic WITH (history = '5 seconds') AS
  SELECT src, dst, SUM(len) AS bytes, COUNT(*) AS n, COUNT(DISTINCT len) AS lengths FROM packets [RANGE 10 SECONDS] GROUP BY src, dst;
CREATE REQUESTS asks (id BIGINT, src STRING, dst STRING, span BIGINT, what STRING, ts TIMESTAMP) FOR traffic
  WITH (time = 'ts', window = 'span', aggregates = 'what');
"""


def packets(*rows: tuple[str, str, int, float]) -> pa.Table:
    times = pa.array([int(ts * 1_000_000) for *_, ts in rows], pa.timestamp("us"))
    return pa.table(
        {
            "src": [r[0] for r in rows],
            "dst": [r[1] for r in rows],
            "len": pa.array([r[2] for r in rows], pa.int32()),
            "ts": times,
        }
    )


def asks(*rows: tuple[int, str | None, str | None, int | None, str | None, float]) -> pa.Table:
    columns = {name: [row[at] for row in rows] for at, name in enumerate(("id", "src", "dst", "span", "what"))}
    typed = {
        name: pa.array(values, pa.int64() if name in ("id", "span") else pa.string())
        for name, values in columns.items()
    }
    return pa.table({**typed, "ts": pa.array([int(row[-1] * 1_000_000) for row in rows], pa.timestamp("us"))})


@pytest.fixture
def job(tmp_path: Path) -> Simulated:
    found = Simulated(WORLD, str(tmp_path / "ck"), 3, Random(1))
    found.run({"packets": packets(*((f"a{i % 5}", f"b{i % 7}", i, float(i)) for i in range(1, 9)))})
    return found


def test_rows_go_by_the_whole_key_and_requests_everywhere() -> None:
    job = bind_script(WORLD)
    routing = route_all(job.queries, [s.name for s in job.streams], {}, 4)
    rows, requests = routing.routings["traffic"].routes["packets"], routing.routings["asks"].routes
    assert rows.replication == 1 and [str(key) for key in rows.keys[0]] == ["packets.src", "packets.dst"]
    assert requests["rows"] == rows and requests["requests"].replication == 4
    assert "the parts are merged" in routing.routings["asks"].explain()


def test_a_request_without_groups_has_one_row(job: Simulated) -> None:
    (table,) = asked(job, ["n, bytes FROM traffic WHERE src = 'nowhere' GROUP BY ()"])
    assert [(row["n"], row["bytes"]) for row in table.to_pylist()] == [(0, None)]
    (table,) = asked(job, ["n, lengths FROM traffic GROUP BY ()"])
    assert [(row["n"], row["lengths"]) for row in table.to_pylist()] == [(7, 7)]


def looked(job: Simulated) -> list[int]:
    """How many requests each shard answered in the last batch."""
    return sorted(
        int(note["statistics"]["operators"]["template traffic"]["rows_out"])
        for note in job.driver.progress.notes.values()
    )


def test_only_one_shard_looks_at_a_request_that_fixes_the_whole_key(job: Simulated) -> None:
    job.run(
        {
            "packets": packets(("a1", "b1", 5, 20.0)),
            "asks": asks((1, "a1", "b1", None, None, 9.0), (2, "a1", None, None, None, 9.5)),
        }
    )
    assert looked(job) == [0, 0, 1]
    job.run({"asks": asks((3, "a1", "b1", None, None, 30.0))})
    assert looked(job) == [1, 1, 1]
    found = [(row["id"], row["src"], row["dst"], row["n"]) for row in job.table("asks").to_pylist()]
    assert sorted(found) == [(1, "a1", "b1", 1), (2, "a1", "b1", 1), (2, "a1", "b6", 1)]


def test_a_request_that_cannot_be_answered_is_one_dead_letter(job: Simulated) -> None:
    job.run(
        {
            "packets": packets(("a", "b", 1, 30.0)),
            "asks": asks((1, None, None, 99_000_000, None, 9.0), (2, None, None, None, "x", 9.0)),
        }
    )
    job.run({"asks": asks((3, None, None, None, None, 31.0))})
    assert sorted((values["id"], reason) for reason, values in job.letters("asks")) == [
        (1, "bad: a window of 99000000, and the template has 10000000"),
        (2, "bad: the template has no aggregate x"),
    ]


def test_refusals_and_instants_ahead(job: Simulated) -> None:
    for text, part in (
        ("n FROM trafic", "did you mean traffic"),
        ("n FROM traffic WHERE len = 1", "does not group by len"),
    ):
        with pytest.raises(UserError, match=part):
            asked(job, [text])
    with pytest.raises(UserError, match="too old"):
        asked(job, ["n FROM traffic"], "1970-01-01 00:00:01")
    token = uuid.uuid4().hex
    job.folder.append(request_record(token, ["n FROM traffic GROUP BY ()"], "1970-01-01 00:00:11"))
    job.settle()
    # The stream jumps far beyond the instant: the rows of the request that waits are kept.
    job.run({"packets": packets(("a", "b", 1, 10.0), ("a", "b", 1, 900.0))})
    (table,) = wait_for_answers(job.checkpoint, job.folder.folder, token, 0.0)
    assert table.to_pylist()[0]["n"] == 9
    token = uuid.uuid4().hex
    job.folder.append(request_record(token, ["n FROM traffic GROUP BY ()"], "1980-01-01 00:00:11"))
    job.settle()
    job.run(closing=True)
    with pytest.raises(UserError, match="lies ahead"):
        wait_for_answers(job.checkpoint, job.folder.folder, token, 0.0)
