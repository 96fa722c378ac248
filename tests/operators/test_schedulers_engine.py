"""Every scheduler gives each query the rows of the plain path, in the same order, only sooner."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline import Session
from eddyline.operators.join.policy import Schedule
from eddyline.operators.join.scheduling.release import SharedSchedule
from eddyline.runtime.engine.units.joins import JoinKind
from eddyline.runtime.figures.response import VirtualClock
from eddyline.settings import Settings
from eddyline.tuning import SchedulingTuning, SharingTuning, Tuning
from tests.seeds import cases

STREAMS = """
CREATE STREAM a (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (time = 'ts', sequence = 'v');
CREATE STREAM b (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (time = 'ts', sequence = 'v');
"""


#: Schedules for steps of a few rows too, with an output buffer that has to grow while rows are under way.
SMALL = Settings(
    tuning=Tuning(scheduling=SchedulingTuning(least_rows=1, least_batch=2), sharing=SharingTuning(least_room=1))
)
#: No schedule at all.
WHOLE = Settings(tuning=Tuning(scheduling=SchedulingTuning(least_rows=1 << 40)))


def drawn(seed: int, rows: int, keys: int) -> list[tuple[str, dict[str, int]]]:
    random_ = random.Random(seed)
    now, out = 0, []
    for number in range(rows):
        now += random_.choice([0, 0, 200_000, 1_000_000])
        out.append((random_.choice("ab"), {"k": random_.randrange(keys), "v": number, "ts": now}))
    return out


def answered(
    queries: dict[str, str],
    rows: list[tuple[str, dict[str, int]]],
    epoch: int,
    scheduler: str,
    base: Settings = SMALL,
    **options: str | int,
) -> tuple[dict[str, list[dict[str, object]]], Session]:
    with Session(base, clock=VirtualClock(per_probe=1e-6)) as session:
        session.execute(STREAMS)
        session.set("scheduler", scheduler)
        for option, value in options.items():
            session.set(option, value)
        for name, sql in queries.items():
            session.query(name, sql)
        for begin in range(0, len(rows), epoch):
            for stream in "ab":
                mine = [row for of, row in rows[begin : begin + epoch] if of == stream]
                if mine:
                    session.push(stream, mine)
            session.step()
        session.run(once=True)
        return {name: session.queries[name].table().to_pylist() for name in queries}, session


def window(kind: str, size: int) -> str:
    return f"[ROWS {size}]" if kind == "rows" else f"[RANGE {size} SECONDS]" if size < 50 else "[UNBOUNDED]"


@st.composite
def shared_queries(draw: st.DrawFn) -> dict[str, str]:
    kinds = draw(st.sampled_from(["range", "rows"])), draw(st.sampled_from(["range", "rows"]))
    second = draw(st.sampled_from(["b", "a"]))
    found = {}
    for number in range(draw(st.integers(2, 5))):
        sizes = sorted(draw(st.lists(st.sampled_from([1, 2, 5, 9, 20, 60]), min_size=2, max_size=2)))
        sizes = sizes if draw(st.booleans()) else [sizes[0], sizes[0]]
        where = draw(st.sampled_from(["", " AND x.v % 3 <> 1", " AND y.v > 20"]))
        x, y = f"a {window(kinds[0], sizes[0])} x", f"{second} {window(kinds[1], sizes[1])} y"
        found[f"q{number}"] = f"SELECT x.v AS xv, y.v AS yv FROM {x}, {y} WHERE x.k = y.k{where}"
    return found


@settings(max_examples=cases(40), deadline=None)
@given(shared_queries(), st.integers(0, 1000), st.sampled_from([3, 17, 60, 200]), st.sampled_from(["hash", "loop"]))
def test_answers_and_their_order_do_not_depend_on_the_scheduler(
    queries: dict[str, str], seed: int, epoch: int, probe: str
) -> None:
    rows = drawn(seed, 120, 4)
    plain, _ = answered(queries, rows, epoch, "mqt", WHOLE, probe=probe)
    for scheduler in ("lwo", "swf", "mqt"):
        found, _ = answered(queries, rows, epoch, scheduler, probe=probe)
        if probe == "hash":
            assert found == plain
        for name, results in found.items():
            assert [newest(row, rows) for row in results] == [newest(row, rows) for row in plain[name]]
            assert sorted(map(repr, results)) == sorted(map(repr, plain[name]))


def newest(result: dict[str, object], rows: list[tuple[str, dict[str, int]]]) -> tuple[int, str, int]:
    """The newest row of a result, as its place in the total order; a scan may give its results in any order."""
    return max((rows[v][1]["ts"], rows[v][0], v) for v in (int(str(result["xv"])), int(str(result["yv"]))))


FOUR = {
    f"w{size}": f"SELECT x.v AS xv, y.v AS yv FROM a [RANGE {size} SECONDS] x, b [RANGE {size} SECONDS] y WHERE x.k = y.k"
    for size in (1, 5, 15, 60)
}


def schedules(session: Session) -> list[Schedule | None]:
    """How each join is worked off."""
    return [unit.results.schedule for unit in session.pipeline.kinds.one(JoinKind).units.values()]


def test_windows_out_of_step_are_worked_off_as_a_whole() -> None:
    queries = {
        "one": "SELECT x.v AS xv FROM a [RANGE 1 SECONDS] x, b [RANGE 9 SECONDS] y WHERE x.k = y.k",
        "two": "SELECT x.v AS xv FROM a [RANGE 9 SECONDS] x, b [RANGE 1 SECONDS] y WHERE x.k = y.k",
    }
    found, session = answered(queries, drawn(1, 100, 3), 50, "mqt")
    assert all(schedule is None for schedule in schedules(session))
    assert found["one"] and found["two"]


def test_small_windows_are_handed_out_before_the_epoch_ends() -> None:
    """The callback of the smallest window has all its results before the largest window has any."""
    heard: list[str] = []

    def hears(name: str) -> Callable[[pa.Table], object]:
        return lambda table: heard.append(name)

    with Session(SMALL) as session:
        session.execute(STREAMS)
        session.set("scheduler", "swf")
        for name, sql in FOUR.items():
            session.query(name, sql)
            session.on_results(name, hears(name))
        for stream in "ab":
            session.push(stream, [row for of, row in drawn(2, 400, 3) if of == stream])
        session.run(once=True)
        totals = {name: len(session.queries[name].table()) for name in FOUR}
    order = [name for name, before in zip(heard, [None, *heard], strict=False) if name != before]
    assert order[:4] == ["w1", "w5", "w15", "w60"]
    assert totals["w1"] < totals["w5"] < totals["w15"] < totals["w60"]
    assert totals == session.stats()["results"]


def test_response_times_under_the_virtual_clock_repeat_and_rank_the_schedulers() -> None:
    rows = drawn(3, 600, 5)
    times = {}
    for scheduler in ("lwo", "swf", "mqt"):
        first, second = (answered(FOUR, rows, 600, scheduler)[1].stats()["response"] for _ in range(2))
        assert first == second
        times[scheduler] = first
    assert times["swf"]["w1"]["mean"] < times["lwo"]["w1"]["mean"]
    assert times["mqt"]["w1"]["mean"] <= times["lwo"]["w1"]["mean"]
    for of in times.values():
        assert all(0 < one["mean"] <= one["max"] and one["p95"] <= one["max"] for one in of.values())


def test_a_query_that_comes_or_goes_changes_the_levels() -> None:
    with Session(SMALL) as session:
        session.execute(STREAMS)
        for name, sql in FOUR.items():
            session.query(name, sql)

        def levels() -> int:
            for _ in range(3):
                for stream in "ab":
                    session.push(stream, [{"k": 1, "v": 1, "ts": 1_000_000 * session.driver.epoch}] * 3)
                session.step()
            (schedule,) = schedules(session)
            assert schedule is not None
            return len(schedule.levels)

        assert levels() == 4
        session.query("more", FOUR["w1"].replace("RANGE 1 ", "RANGE 3 "))
        assert levels() == 5
        session.drop("w60")
        assert levels() == 4


def test_results_that_everybody_has_had_are_not_kept_until_the_epoch_ends(tmp_path: Path) -> None:
    """Where a callback waits for them they leave at once, to the callback and to a file, once to each."""
    heard: dict[str, list[pa.Table]] = {"w1": [], "w60": []}
    with Session(SMALL, keep_results=False) as session:
        session.execute(STREAMS)
        for name in heard:
            session.query(name, FOUR[name])
            session.on_results(name, heard[name].append)
        session.execute(f"CREATE SINK file FOR w60 WITH (format = 'parquet', path = '{tmp_path / 'w60'}')")
        for stream in "ab":
            session.push(stream, [row for of, row in drawn(4, 300, 3) if of == stream])
        assert session.driver is not None
        outcome = session.driver.step()
        kept = {name: sum(len(table) for table in tables) for name, tables in outcome.results.items()}
        session.run(once=True)
        totals = session.stats()["results"]
    assert kept == {"w1": 0, "w60": 0} and totals["w1"] and totals["w60"]
    assert {name: sum(len(table) for table in tables) for name, tables in heard.items()} == totals
    assert pa.parquet.read_table(tmp_path / "w60").num_rows == totals["w60"]


def test_lineage_and_plain_windows_take_turns() -> None:
    """A query that has just come does not know old rows: until they are gone pairs carry lineage, and then no
    longer."""
    rows = drawn(5, 240, 3)

    def run(scheduler: str) -> tuple[dict[str, list[dict[str, object]]], list[bool]]:
        plain: list[bool] = []
        with Session(WHOLE if scheduler == "none" else SMALL) as session:
            if scheduler != "none":
                session.set("scheduler", scheduler)
            session.execute(STREAMS)
            for name in ("w1", "w5"):
                session.query(name, FOUR[name])
            for begin in range(0, len(rows), 30):
                if begin == 60:
                    session.query("w15", FOUR["w15"])
                for stream in "ab":
                    session.push(stream, [row for of, row in rows[begin : begin + 30] if of == stream])
                session.step()
                plain += [s.is_plain for s in schedules(session) if isinstance(s, SharedSchedule)]
            session.run(once=True)
            return {name: session.queries[name].table().to_pylist() for name in ("w1", "w5", "w15")}, plain

    expected, _ = run("none")
    for scheduler in ("lwo", "swf", "mqt"):
        found, plain = run(scheduler)
        assert found == expected
        assert plain[:2] == [True, True] and not plain[2] and plain[-1]


def test_many_queries_with_the_same_windows_share_what_is_handed_out() -> None:
    """Queries of one window with one SELECT list get the same table; a dropped one stops where it should."""
    queries = {f"q{size}_{copy}": FOUR[f"w{size}"] for size in (1, 5, 15) for copy in range(4)}
    rows = drawn(6, 300, 3)
    plain, _ = answered(queries, rows, 100, "mqt", WHOLE)
    for scheduler in ("lwo", "swf", "mqt"):
        found, session = answered(queries, rows, 100, scheduler)
        assert found == plain
        assert session.stats()["results"] == {name: len(results) for name, results in plain.items()}
        response = session.stats()["response"]
        assert response["q1_0"] == response["q1_3"]
