"""Zones in joins: when they are asked, what they leave undecided, what they count and show."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from eddyline import Session
from eddyline.operators.join.demand.partners import missed
from eddyline.operators.worth import Worth
from eddyline.settings import Settings
from eddyline.tuning import ZoneTuning

BAND = "a.x BETWEEN b.x - 1 AND b.x + 1"


def answered(
    where: str, a: list[object], b: list[object], kind: str = "BIGINT", epochs: int = 1, **options: str
) -> tuple[pa.ChunkedArray, dict, str]:
    """Results of a join of two streams with one column, as texts, the statistics, and what EXPLAIN ANALYZE says."""
    with Session(Settings()) as session:
        for name in "ab":
            session.execute(f"CREATE STREAM {name} (x {kind}, ts TIMESTAMP) WITH (time = 'ts')")
        query = session.query(
            "q", f"SELECT a.x AS ax, b.x AS bx FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR] WHERE {where}", **options
        )
        for epoch in range(epochs):
            for name, values in (("a", a), ("b", b)):
                part = values[epoch * len(values) // epochs : (epoch + 1) * len(values) // epochs]
                first = epoch * len(values) // epochs
                session.push(name, [(value, (first + n) * 10 + (name == "b")) for n, value in enumerate(part)])
            session.step()
        session.run(once=True)
        texts = [column.cast(pa.string()) for column in query.table().columns]
        rows = pc.binary_join_element_wise(*texts, " ", null_handling="replace", null_replacement="null")
        return rows, session.stats(), session.analysis("q")


def test_explain_analyze_and_stats_say_what_zones_did() -> None:
    rising: list[object] = list(range(640))
    rows, stats, text = answered(BAND, rising, rising, heralds="on")
    assert len(rows) == 3 * 640 - 2
    # 10 zones against 10, from both sides; only neighbours can match.
    assert 2 * (100 - 28) <= stats["zones_skipped"] <= 200 and stats["visited"] < 640 * 640
    # Of neighbours, one of the two conditions is certain.
    assert f" pairs, {stats['zones_skipped']} skipped, {stats['zones_passed']} passed" in text and "zones a⋈b: " in text
    assert 0 < stats["zones_passed"] < 60
    rows, stats, text = answered("a.x < b.x", rising, rising, heralds="on")
    assert len(rows) == 640 * 639 // 2
    assert stats["zones_skipped"] >= 90 and stats["zones_passed"] >= 90 and stats["conditions_avoided"] >= 45 * 64 * 60
    assert f"{stats['zones_skipped']} skipped, {stats['zones_passed']} passed" in text
    assert answered("a.x < b.x", rising, rising, heralds="off")[1]["zones_skipped"] == 0


def test_auto_asks_where_that_saves_work_and_looks_again_ever_more_rarely() -> None:
    rising: list[object] = list(range(2_000))
    _, stats, _ = answered(BAND, rising, rising, epochs=4)
    assert stats["zones_skipped"] > 1_000
    mixed: list[object] = [n * 7919 % 2_000 for n in range(2_000)]
    # Functions of columns have no stored keys: nothing is skipped, and nothing is tested by its key.
    doubled = "a.x * 2 BETWEEN b.x * 2 - 2 AND b.x * 2 + 2"
    _, off, _ = answered(doubled, mixed, mixed, epochs=8, heralds="off")
    _, stats, text = answered(doubled, mixed, mixed, epochs=8)
    assert stats["visited"] == off["visited"]
    _, always, everything = answered(doubled, mixed, mixed, epochs=8, heralds="on")
    looked, all_pairs = (int(one.split("zones a⋈b: ")[1].split(" ")[0].replace(",", "")) for one in (text, everything))
    # Looks in the epochs 0, 1, 3 and 7: from both sides 4 or 5 stretches of new rows against a zone per 64 stored rows.
    assert always["zones_skipped"] == 0 and looked == 2 * (4 * 4 + 5 * (8 + 16 + 32)) < all_pairs / 2


def test_worth_starts_at_a_quarter_stops_below_a_tenth_and_pauses() -> None:
    worth = Worth(ZoneTuning(), is_open=True)
    looks = []
    for epoch in range(100):
        if worth.is_worth(epoch):
            looks.append(epoch)
            worth.note(100.0, 20.0)
    assert looks == [0, 1, 3, 7, 15, 31, 63]
    assert worth.is_worth(127)
    worth.note(100.0, 26.0)
    assert worth.is_on
    for epoch, saved in ((128, 11.0), (129, 9.0)):
        assert worth.is_worth(epoch)
        worth.note(100.0, saved)
    assert not worth.is_worth(130) or worth.switches == 2
    assert worth.switches == 2 and not worth.is_on
    assert Worth(ZoneTuning(), is_open=False).is_worth(5)


@pytest.mark.parametrize("where", ["a.x < b.x + 2147483000", "a.x * 3 < b.x", "a.x > b.x - 2147483000"])
def test_ends_that_overflow_decide_nothing_and_are_counted_as_before(where: str) -> None:
    values: list[object] = [*range(-700, 0), *(2**31 - 1 - n for n in range(300))]
    plain, before, _ = answered(where, values, values, "INT", heralds="off")
    found, after, _ = answered(where, values, values, "INT", heralds="on")
    assert found == plain
    assert after["null_results"] == before["null_results"]


@pytest.mark.parametrize("where", ["a.x < b.x * -1.0", "a.x + 0.1 <= b.x + 0.3", "a.x <> b.x", "a.x / 3.0 > b.x"])
def test_doubles_with_nan_infinity_and_signed_zeros(where: str) -> None:
    values: list[object] = [n / 4 - 40 for n in range(320)]
    for at, odd in zip(
        range(0, 320, 37),
        (float("nan"), float("inf"), -float("inf"), -0.0, 0.0, None, float("nan"), 1e308, -1e308),
        strict=False,
    ):
        values[at] = odd
    plain, _, _ = answered(where, values, values, "DOUBLE", heralds="off")
    found, stats, _ = answered(where, values, values, "DOUBLE", heralds="on")
    assert found == plain and stats["zones_skipped"] + stats["zones_passed"] > 0


def test_errata_sums_of_doubles_are_those_of_rows() -> None:
    """0.1 + 0.2 > 0.3 is true of rows and false of exact numbers: bounds that were added exactly would skip what
    matches."""
    tenth: list[object] = [0.1] * 100
    for where in ("a.x + 0.2 > b.x AND b.x >= 0.3", "b.x < a.x + 0.2 AND b.x - 0.2 <= a.x"):
        found, stats, _ = answered(where, tenth, [0.3] * 100, "DOUBLE", heralds="on")
        assert found == answered(where, tenth, [0.3] * 100, "DOUBLE", heralds="off")[0] and len(found) == 10_000
        # Both are points: everything is certain.
        assert stats["zones_skipped"] == 0 and stats["zones_passed"] > 0


def test_errata_an_optimisation_that_applies_is_not_always_a_gain() -> None:
    """§12.2 takes every one that it finds. Of few rows, finding one costs more than it saves: `auto` looks now and then
    only."""
    low, high = list[object](range(64)), list[object](range(100, 164))
    always, never, auto = (
        answered("a.x > b.x", low, high, epochs=8, heralds=mode)[1] for mode in ("on", "off", "auto")
    )
    assert always["visited"] == 0 < auto["visited"] < never["visited"]


def test_a_condition_that_can_fail_is_never_left_out() -> None:
    """Division by zero is counted for every pair; zones would leave pairs out before."""
    rising: list[object] = list(range(300))
    where = "100 // (a.x - b.x) >= 0 AND a.x < b.x"
    plain, before, _ = answered(where, rising, rising, heralds="off")
    found, after, _ = answered(where, rising, rising, heralds="on")
    assert found == plain and after["null_results"] == before["null_results"] and after["null_results"]
    assert after["zones_skipped"] == 0


def test_where_orders_are_drawn_stretches_are_skipped_and_no_condition_is_passed() -> None:
    rising: list[object] = list(range(400))
    plain, off, _ = answered("a.x < b.x", rising, rising, heralds="off", route="lottery")
    found, on, _ = answered("a.x < b.x", rising, rising, heralds="on", route="lottery")
    assert found.take(pc.sort_indices(found)) == plain.take(pc.sort_indices(plain)) and len(plain) == 400 * 399 // 2
    assert (
        on["zones_skipped"] > 0
        and on["zones_passed"] == on["conditions_avoided"] == 0
        and on["visited"] < off["visited"]
    )


@pytest.mark.parametrize("heralds", ["on", "auto"])
def test_a_probe_by_hash_leaves_out_conditions_that_hold_of_the_whole_store(heralds: str) -> None:
    low, high = list[object](range(640)), list[object](range(64_000, 64_640))
    where = "a.x % 10 = b.x % 10 AND a.x < b.x"
    plain, off, _ = answered(where, low, high, heralds="off")
    found, stats, _ = answered(where, low, high, heralds=heralds)
    assert found == plain and len(plain) == stats["conditions_avoided"] == 64 * 640
    assert stats["zones_passed"] > 0 == stats["zones_skipped"] and stats["probes"] == off["probes"]


def test_texts_with_equal_prefixes_are_tested() -> None:
    texts: list[object] = [f"{'shared-prefix' if n % 2 else 'a'}{n:04d}" for n in range(300)]
    for where in ("a.x < b.x", "a.x = b.x", "a.x >= b.x", "a.x <> b.x"):
        assert (
            answered(where, texts, texts, "STRING", heralds="on")[0]
            == answered(where, texts, texts, "STRING", heralds="off")[0]
        )


def demanded(heralds: str, jit: str, plan: str) -> tuple[list[tuple[object, ...]], dict]:
    """A join of three streams; what c holds lies in few places, those that a and b bring change from stretch to
    stretch."""
    with Session(Settings()) as session:
        for name in "abc":
            session.execute(f"CREATE STREAM {name} (k BIGINT, g BIGINT, ts TIMESTAMP) WITH (time = 'ts')")
        query = session.query(
            "q",
            "SELECT a.ts AS a, b.ts AS b, c.ts AS c FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR], c [RANGE 1 HOUR] "
            "WHERE a.k = b.k AND b.g = c.g",
            heralds=heralds, jit=jit, plan=plan, replan="off",
        )  # fmt: skip
        session.push("c", [(n, -5_000 if n < 128 else 10_000, n) for n in range(192)])
        session.step()
        for epoch in range(3):
            first = 1_000 * (epoch + 1)
            for at, name in enumerate("ab"):
                session.push(name, [(n % 200, 100 * (n // 80), first + 2 * n + at) for n in range(400)])
            # What was missing comes: combinations that zones refused are made.
            session.push("c", [(n, 100 * epoch + 100, first + 900 + n) for n in range(3)])
            session.step()
        session.run(once=True)
        return [tuple(row.values()) for row in query.table().to_pylist()], session.stats()


@pytest.mark.parametrize("jit", ["exact", "bloom", "auto"])
@pytest.mark.parametrize("plan", ["((a b) c)", "mjoin"])
def test_demand_asks_zones_first(jit: str, plan: str) -> None:
    plain, off = demanded("off", jit, plan)
    found, on = demanded("on", jit, plan)
    assert len(plain) > 1_000 and found == plain and off["zones_skipped"] == off["conditions_avoided"] == 0
    if jit != "auto":
        assert on["zones_skipped"] > 5 and on["conditions_avoided"] > 500
    for name in ("suspensions", "marks", "resumptions"):
        assert on[name] == off[name] or jit == "auto", name
    assert demanded("auto", jit, plan)[0] == plain


def test_ranges_that_miss_all_zones() -> None:
    least, most = np.array([50, 3, 20]), np.array([60, 9, 55])
    low, high = np.array([10, 0, 9, 61, 56, -5]), np.array([19, 2, 10, 99, 57, 100])
    assert missed(low, high, least, most).tolist() == [True, True, False, True, False, False]
    assert missed(low, high, least[:0], most[:0]).all()


def keyed(a: list[object], b: list[object], heralds: str) -> tuple[pa.ChunkedArray, dict, str]:
    return answered("a.x = b.x", a, b, epochs=8, heralds=heralds)


def test_auto_leaves_stretches_out_whose_keys_miss_the_whole_store() -> None:
    apart: list[object] = [n + (0 if n % 1_000 < 100 else 1_000_000) for n in range(8_000)]
    other: list[object] = list(range(8_000))
    plain, off, _ = keyed(apart, other, "off")
    found, auto, text = keyed(apart, other, "auto")
    assert found == plain and len(plain) == 800
    assert auto["zones_skipped"] > 50 and auto["probes"] < off["probes"] and "zones a⋈b: " in text
    # Keys that meet: some glances, and no zone is asked.
    mixed: list[object] = [n * 7919 % 8_000 for n in range(8_000)]
    plain, off, _ = keyed(mixed, mixed, "off")
    found, auto, text = keyed(mixed, mixed, "auto")
    assert found == plain and len(plain) == 8_000
    assert auto["zones_skipped"] == 0 and auto["probes"] == off["probes"] and "zones a⋈b: " not in text


@pytest.mark.parametrize(
    ("kind", "where"),
    [
        ("BIGINT", "a.x <= b.x + 3"),
        ("BIGINT", "a.x > b.x - 3 AND a.x < b.x"),
        ("INT", "a.x < b.x AND b.x < a.x + 9"),
        ("BIGINT", "a.x - 9223372036854775800 < b.x"),
        ("DOUBLE", "a.x < b.x"),
        ("DOUBLE", "a.x >= b.x AND a.x <= b.x"),
        ("DATE", "a.x <= b.x"),
        ("STRING", "a.x < b.x"),
        ("DECIMAL(9, 2)", "a.x < b.x"),
    ],
)
def test_pairs_tested_by_their_keys_are_those_of_a_scan(kind: str, where: str) -> None:
    numbers = [None if n % 17 == 3 else n * 7919 % 250 for n in range(250)]
    odd = [float("nan"), float("-inf"), -0.0, 0.0]
    made: dict[str, list[object]] = {
        "BIGINT": [n if n is None or n % 50 else (-1) ** n * (2**63 - 1) for n in numbers],
        "INT": list(numbers),
        "DOUBLE": [odd[n % 4] if n is not None and n % 40 < 4 else None if n is None else n / 4 for n in numbers],
        "DATE": [None if n is None else date(1969, 9, 1) + timedelta(n) for n in numbers],
        "STRING": [None if n is None else f"prefix{n % 90}" for n in numbers],
        "DECIMAL(9, 2)": [None if n is None else Decimal(n - 100) / 4 for n in numbers],
    }
    values = made[kind]
    plain, off, _ = answered(where, values, values[::-1], kind, epochs=2, heralds="off")
    found, on, _ = answered(where, values, values[::-1], kind, epochs=2, heralds="on")
    assert found == plain and len(plain)
    assert on["null_results"] == off["null_results"]
