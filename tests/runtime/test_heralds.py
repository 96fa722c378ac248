"""Heralds through the embedded engine: places, spans, violators, bad texts; a herald that is kept changes nothing."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from eddyline import Session
from eddyline.errors import BindingProblem, SyntaxProblem, UserError
from eddyline.language import bind_script
from eddyline.language.parse import parse_script
from eddyline.language.render import render
from eddyline.settings import Settings
from eddyline.tuning import Tuning, ZoneTuning
from tests.runtime.heralding import judged, random_rows, statements
from tests.runtime.test_records import run

SMALL_ZONES = Settings(tuning=Tuning(zones=ZoneTuning(rows=8, least_rows=2)))

SALES = "CREATE STREAM sales (store INT, qty INT, note STRING, ts TIMESTAMP) WITH (time = 'ts', herald = 'note')"


@pytest.mark.parametrize("seed", range(30))
def test_violators_are_removed_whatever_the_epochs_and_restarts(seed: int) -> None:
    random = Random(seed)
    lateness = random.choice([0, 0, 2, 4])
    text = statements(lateness, sequence=seed % 4 == 3, heralds=random.choice(("on", "off", "auto")))
    rows = {"a": random_rows(random, 90, lateness, True), "b": random_rows(random, 90, lateness, False)}
    if seed % 4 == 3:
        for row, other in zip(rows["a"], random.sample(range(90), 90), strict=True):
            row["id"] = other
    kept, lost = judged(rows["a"], ("ts", "id") if seed % 4 == 3 else ("ts",))
    found, dead, pipeline = run(random, text, rows, restarts=0.3, settings=SMALL_ZONES)
    wanted, none, _ = run(random, text.replace("'on'", "'off'"), {"a": kept, "b": rows["b"]})
    assert not none and found == wanted
    assert sorted(row["id"] for row in dead) == sorted(row["id"] for row in lost)
    assert all(row["_reason"].startswith("violation: herald v") for row in dead)
    heralds = sum(row["said"] is not None for row in rows["a"])
    assert pipeline.gating.gates["a"].counts.came == {"herald": heralds}
    assert pipeline.intakes["a"].violations == len(lost)


def answered(*said: tuple[object, ...], statement: str = "") -> tuple[list[int], list[str], dict[str, int]]:
    """Stores that are left of rows (store, note, second), reasons of dead letters, and counts."""
    with Session() as session:
        session.execute(SALES)
        if statement:
            session.execute(statement)
        query = session.query("q", "SELECT store FROM sales")
        session.push("sales", [(store, 1, note, int(second) * 1_000_000) for store, note, second in said])  # type: ignore[call-overload]
        session.run(once=True)
        stats = session.stats()
        reasons = [str(row["_reason"]) for row in session.dead_letters("sales").to_pylist()]
        return (
            query.table().column("store").to_pylist(),
            reasons,
            {key: stats[key]["sales"] for key in ("bad", "violations", "late")},
        )


def test_rows_count_violators_and_the_next_herald_ends_the_one_in_force() -> None:
    stores, reasons, counts = answered(
        (1, None, 1), (0, "store < 5 FOR 3 ROWS", 2), (9, None, 3), (4, None, 4), (8, None, 5), (7, None, 6),
        (0, "store = 3 FOR 1 HOUR", 7), (3, None, 8), (0, "store > 5 FOR 2 ROWS", 9), (6, None, 10), (2, None, 11), (1, None, 12),
    )  # fmt: skip
    assert stores == [1, 4, 7, 3, 6, 1] and counts == {"bad": 0, "violations": 3, "late": 0}
    assert reasons[0] == "violation: herald store < 5 FOR 3 ROWS"


def test_a_span_of_time_holds_its_last_instant_and_nulls_match_is_null_only() -> None:
    stores, _, counts = answered((0, "store >= 5 FOR 2 SECONDS", 1), (4, None, 3), (None, None, 3), (3, None, 4))
    assert stores == [3] and counts["violations"] == 2
    stores, _, counts = answered((0, "store IS NULL FOR 2 ROWS", 1), (None, None, 2), (4, None, 3), (5, None, 4))
    assert stores == [None, 5] and counts["violations"] == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("nonsense", "expected FOR"),
        ("store < 5", "expected FOR"),
        ("store < 5 FOR 3 ROWS 2 HOURS", "a herald has one span"),
        ("store < 5 FOR 2 HOURS 3 ROWS", "a herald has one span"),
        ("store < qty FOR 3 ROWS", "a herald does not say"),
        ("store + 1 < 5 FOR 3 ROWS", "a herald does not say"),
        ("store < 5 OR qty = 1 FOR 3 ROWS", "a herald does not say"),
        ("shop < 5 FOR 3 ROWS", "no column"),
        ("store < 5 FOR 0 ROWS", "is no span"),
        ("store < 5 FOR -3 ROWS", "FOR -3 ROWS is no span"),
        ("store < 5 FOR -3 SECONDS", "a span is not negative"),
        ("CAST(note AS INT) < 5 FOR 3 ROWS", "a herald does not cast columns"),
        ("store IS NOT NULL FOR 3 ROWS", "a herald does not say"),
        ("store < 9223372036854775808 FOR 3 ROWS", "does not fit into BIGINT"),
        ("store < 5 FOR 3 ROWS; DROP QUERY q", "expected one expression"),
        ("", "expected one expression"),
    ],
)
def test_a_text_that_is_no_herald_is_a_bad_row(text: str, why: str) -> None:
    stores, reasons, counts = answered((1, None, 1), (0, text, 2), (9, None, 3))
    assert stores == [1, 9] and counts["bad"] == 1 and counts["violations"] == 0
    assert reasons[0].startswith("bad: its herald cannot be read") and why in reasons[0]


def test_a_statement_has_its_place_and_two_at_one_place() -> None:
    second = "TIMESTAMP '1970-01-01 00:00:02'"
    first = f"HERALD sales WHERE store = 1 FOR 2 ROWS AT {second}; HERALD sales WHERE store = 2 FOR 2 ROWS AT {second};"
    stores, _, counts = answered((7, None, 2), (1, None, 3), (2, None, 4), (1, None, 5), statement=first)
    assert stores == [7, 2, 1] and counts["violations"] == 1


def test_a_herald_below_the_frontier_is_counted_and_ignored() -> None:
    with Session() as session:
        session.execute(SALES)
        query = session.query("q", "SELECT store FROM sales")
        session.push("sales", [(1, 1, None, 1_000_000), (2, 1, None, 9_000_000)])
        session.step()
        session.herald("sales", "store = 5", span="1 hour", at="1970-01-01 00:00:03")
        session.herald("sales", "store < 5", rows=1)
        session.push("sales", [(3, 1, None, 10_000_000), (9, 1, None, 11_000_000)])
        session.run(once=True)
        assert query.table().column("store").to_pylist() == [1, 2, 3, 9]
        counts = session.pipeline.gating.gates["sales"].counts
        assert counts.came == {"herald": 2} and counts.late == {"herald": 1}
        assert session.stats()["late_records"] == {"sales": 1}


@pytest.mark.parametrize(("rows", "span"), [(None, None), (3, "1 hour")])
def test_both_spans_or_none_are_refused(rows: int | None, span: str | None) -> None:
    with Session() as session:
        session.execute(SALES)
        with pytest.raises(BindingProblem, match="one span"):
            session.herald("sales", "store < 5", rows=rows, span=span)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"condition": 5, "rows": 3}, "5 is no condition"),
        ({"condition": "store < 5 FOR 2 ROWS", "rows": 3}, "one span"),
        ({"condition": "store < 5 --", "rows": 3}, "expected FOR"),
        ({"stream": "sale", "rows": 3}, "sale"),
        ({"rows": 0}, "is no span"),
        ({"rows": -3}, "is no span"),
        ({"rows": True}, "no number of rows"),
        ({"rows": "3"}, "no number of rows"),
        ({"rows": 2.5}, "no number of rows"),
        ({"span": 5}, "no span of time"),
        ({"span": "-1 hour"}, "not a span of time"),
        ({"span": "3 rows"}, "no unit of time"),
        ({"rows": 3, "at": 5}, "no instant"),
        ({"rows": 3, "at": "yesterday"}, "not a TIMESTAMP"),
    ],
)
def test_wrong_arguments_are_refused_and_leave_nothing_behind(wrong: dict[str, Any], why: str) -> None:
    with Session() as session:
        session.execute(SALES)
        query = session.query("q", "SELECT store FROM sales")
        with pytest.raises(UserError, match=why):
            session.herald(**{"stream": "sales", "condition": "store < 5", **wrong})
        session.push("sales", [(9, 1, None, 1_000_000)])
        session.run(once=True)
        assert query.table().num_rows == 1 and session.stats()["violations"] == {"sales": 0}


def test_blanks_in_texts_mean_what_they_are_and_comments_nothing() -> None:
    named = SALES.replace("store INT", "store STRING")
    first = "HERALD sales WHERE store = 'a  b' -- two blanks\n FOR 1 ROW /* one */\n AT TIMESTAMP '1970-01-01 00:00:01'"
    with Session() as session:
        session.execute(named)
        session.execute(first)
        query = session.query("q", "SELECT store FROM sales")
        said = [
            ("a  b", None),
            ("a b", "store = 'a b' FOR 1 ROW"),
            ("a  b", "store = 'a  b' FOR 1 ROW"),
            ("a b", "store = 'a  b' FOR 1 ROW"),
        ]
        for second, (store, note) in enumerate(said, 2):
            if note is not None:
                session.push("sales", [(None, None, note, second * 1_000_000)])
            session.push("sales", [(store, 1, None, second * 1_000_000)])
        session.run(once=True)
        assert query.table().column("store").to_pylist() == ["a  b", "a b", "a  b"]
        assert session.dead_letters("sales").column("_reason").to_pylist() == [
            "violation: herald store = 'a  b' FOR 1 ROW"
        ]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("HERALD sales WHERE store < 5 FOR 3 ROWS", "expected AT"),
        ("HERALD sales WHERE store < 5 AT TIMESTAMP '2024-01-01 00:00:00'", "expected FOR"),
        ("HERALD sales WHERE store < 5 FOR 3 ROWS AT 5", "AT takes an instant"),
        ("HERALD sales WHERE store <> 5 FOR 3 ROWS AT TIMESTAMP '2024-01-01 00:00:00'", "does not say"),
        ("HERALD shops WHERE store < 5 FOR 3 ROWS AT TIMESTAMP '2024-01-01 00:00:00'", "shops"),
        ("CREATE STREAM s (n INT, ts TIMESTAMP) WITH (time = 'ts', herald = 'n')", "is INT"),
        ("CREATE STREAM s (n STRING, ts TIMESTAMP) WITH (time = 'ts', herald = 'm')", "no column m"),
    ],
)
def test_statements_that_are_refused(text: str, why: str) -> None:
    with Session() as session:
        session.execute(SALES)
        with pytest.raises(UserError, match=why):
            session.execute(text)


def test_a_statement_is_rendered_as_it_is_read() -> None:
    text = (
        "HERALD sales WHERE store BETWEEN 200 AND 399 AND qty >= 5000 FOR 10 MINUTES AT TIMESTAMP '2024-01-01 12:00:00'"
    )
    (statement,) = parse_script(text)
    assert parse_script(render(statement)) == [statement]
    with pytest.raises(SyntaxProblem):
        parse_script("HERALD sales")


def test_a_statement_happens_once_per_checkpoint(tmp_path: Path) -> None:
    """A second run on the same checkpoint reads the same job file: its herald is not said again."""
    folder = tmp_path / "sales"
    folder.mkdir()
    (folder / "1.csv").write_text("store,ts\n1,1970-01-01 00:00:01\n9,1970-01-01 00:00:03\n")
    text = f"""
        CREATE STREAM sales (store INT, ts TIMESTAMP) WITH (time = 'ts', format = 'csv', path = '{folder}');
        HERALD sales WHERE store < 5 FOR 2 ROWS AT TIMESTAMP '1970-01-01 00:00:02';
        CREATE QUERY q AS SELECT store FROM sales;
    """
    found = []
    for run_number in (1, 2):
        if run_number == 2:
            (folder / "2.csv").write_text("store,ts\n8,1970-01-01 00:00:05\n7,1970-01-01 00:00:06\n")
        with Session(Settings(), checkpoint=tmp_path / "checkpoint") as session:
            session.execute(text)
            session.run(once=True)
            found.append((session.queries["q"].take().column("store").to_pylist(), session.stats()["violations"]))
    assert found[0] == ([1], {"sales": 1})
    # The herald was in force for one more row when the first run ended.
    assert found[1] == ([7], {"sales": 2})


def test_heralds_end_zones() -> None:
    with Session() as session:
        for name in "ab":
            session.execute(
                f"CREATE STREAM {name} (v BIGINT, said STRING, ts TIMESTAMP) WITH (time = 'ts', herald = 'said')"
            )
        session.query(
            "q", "SELECT a.v AS x, b.v AS y FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR] WHERE a.v > b.v", heralds="on"
        )
        for name in "ab":
            rows: list[tuple[int, str | None, int]] = []
            for n in range(100):
                if n % 20 == 0:
                    rows.append((0, f"v >= {n} AND v < {n + 20} FOR 20 ROWS", n * 1000))
                rows.append((n, None, n * 1000))
            session.push(name, rows)
        session.run(once=True)
        (group,) = session.pipeline.groups.values()
        store = group.bases[0].store
        assert store.zones.cuts(store.first, store.end).tolist() == [0, 20, 40, 60, 80, 100]
        assert session.stats()["zones_skipped"] > 0 and session.stats()["violations"] == {"a": 0, "b": 0}


def test_declarations_come_back_from_their_text() -> None:
    job = bind_script(SALES)
    assert job.streams[0].herald == "note" and not job.streams[0].heralded
    said = bind_script(SALES + "; HERALD sales WHERE store = 1 FOR 5 ROWS AT TIMESTAMP '2024-01-01 00:00:00'")
    assert said.streams[0].heralded and said.streams[0].counted and not said.streams[0].receives_punctuations


def test_a_herald_moves_no_horizon_and_no_window_counts_it() -> None:
    with Session() as session:
        session.execute(SALES)
        last = session.query(
            "q", "SELECT a.store AS x, b.store AS y FROM sales [ROWS 1] a, sales [ROWS 1] b WHERE a.store < b.store"
        )
        session.push("sales", [(1, 1, None, 1_000_000), (None, None, "store < 9 FOR 1 HOUR", 900_000_000)])
        session.step()
        # Far below the herald, and not late: the herald is no row.
        session.push("sales", [(2, 1, None, 2_000_000), (3, 1, None, 901_000_000), (99, 1, None, 902_000_000)])
        session.run(once=True)
        stats = session.stats()
        assert stats["late"] == {"sales": 0} and stats["violations"] == {"sales": 1}
        assert last.table().num_rows == 0
        assert session.dead_letters("sales").column("store").to_pylist() == ["99"]


def test_a_violator_moves_the_horizon_of_its_stream() -> None:
    with Session() as session:
        session.execute(SALES)
        live = session.query("q", "SELECT COUNT(*) AS n FROM sales [RANGE 5 SECONDS]")
        session.push(
            "sales",
            [(1, 1, None, 1_000_000), (None, None, "store < 5 FOR 1 HOUR", 2_000_000), (9, 1, None, 60_000_000)],
        )
        session.step()
        session.push("sales", [(2, 1, None, 3_000_000), (3, 1, None, 61_000_000)])
        session.run(once=True)
        counts = [(row["n"], row["_ts"].minute * 60 + row["_ts"].second) for row in live.table().to_pylist()]
        # The first row leaves its window although nothing but a violator has come: all is known up to its time. A row
        # below it is late.
        assert counts[-2:] == [(0, 59), (1, 61)] and session.stats()["late"] == {"sales": 1}


def test_a_herald_stands_after_the_rows_that_were_pushed_and_not_after_other_heralds() -> None:
    with Session() as session:
        session.execute(SALES)
        query = session.query("q", "SELECT store FROM sales")
        session.push("sales", [(1, 1, None, 1_000_000), (None, None, "store < 9 FOR 1 HOUR", 900_000_000)])
        session.herald("sales", "store = 5", rows=2)
        session.push(
            "sales",
            [(5, 1, None, 2_000_000), (6, 1, None, 3_000_000), (7, 1, None, 4_000_000), (9, 1, None, 901_000_000)],
        )
        session.run(once=True)
        assert query.table().column("store").to_pylist() == [1, 5, 7] and session.stats()["violations"] == {"sales": 2}


def test_punctuations_are_checked_first_and_a_row_is_counted_once() -> None:
    with Session() as session:
        session.execute(SALES)
        query = session.query("q", "SELECT store FROM sales")
        session.push("sales", [(1, 1, None, 1_000_000), (None, None, "store < 5 FOR 3 ROWS", 2_000_000)])
        session.punctuate("sales", "store >= 7", at="1970-01-01 00:00:02")
        session.push(
            "sales",
            [(8, 1, None, 3_000_000), (6, 1, None, 4_000_000), (4, 1, None, 5_000_000), (6, 1, None, 6_000_000)],
        )
        session.run(once=True)
        assert query.table().column("store").to_pylist() == [1, 4, 6]
        reasons = [str(row["_reason"]) for row in session.dead_letters("sales").to_pylist()]
        # The row that breaks both has the punctuation's reason, and counts as one of the three rows of the herald.
        assert [reason.startswith("violation: herald") for reason in reasons] == [False, True]
        assert session.stats()["violations"] == {"sales": 2}


@pytest.mark.parametrize("heralds", ["on", "auto"])
def test_errata_rows_that_no_herald_speaks_of_meet_all_partners(heralds: str) -> None:
    """§14.2.2 joins the pairs of partitions that a control table lists; what nothing is known of must be evaluated."""
    with Session(SMALL_ZONES) as session:
        for name in "ab":
            session.execute(
                f"CREATE STREAM {name} (v BIGINT, said STRING, ts TIMESTAMP) WITH (time = 'ts', herald = 'said')"
            )
        query = session.query(
            "q", "SELECT a.v AS x, b.v AS y FROM a [UNBOUNDED], b [UNBOUNDED] WHERE a.v < b.v", heralds=heralds
        )
        made: dict[str, list[int]] = {"a": [], "b": []}
        for name in "ab":
            rows: list[tuple[int | None, str | None, int]] = []
            for n in range(200):
                value = n * 37 % 100 if n < 40 or n >= 120 else 500 + n
                if n == 40:
                    rows.append((None, "v >= 500 FOR 80 ROWS", n * 1000))
                rows.append((value, None, n * 1000))
                made[name].append(value)
            session.push(name, rows)
        session.run(once=True)
        wanted = sorted((x, y) for x in made["a"] for y in made["b"] if x < y)
        assert sorted((row["x"], row["y"]) for row in query.table().to_pylist()) == wanted
        assert session.stats()["violations"] == {"a": 0, "b": 0} and session.stats()["zones_skipped"] > 0
