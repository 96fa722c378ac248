"""Odd values through the whole engine: nothing crashes, nothing is lost without a reason."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline import Session, UserError

STREAMS = """
CREATE STREAM a (k DOUBLE, s STRING, ts TIMESTAMP) WITH (time='ts');
CREATE STREAM b (k DOUBLE, s STRING, ts TIMESTAMP) WITH (time='ts');
"""


@pytest.fixture
def session() -> Session:
    made = Session()
    made.execute(STREAMS)
    return made


def test_nan_keys_join_and_null_keys_do_not(session: Session) -> None:
    query = session.query("q", "SELECT a.k, b.s FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR] WHERE a.k = b.k")
    text = session.query("t", "SELECT a.k, b.s FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR] WHERE a.s = b.s")
    for name in "ab":
        keys = [float("nan"), None, 0.0 if name == "a" else -0.0]
        session.push(
            name, [{"k": k, "s": s, "ts": i} for i, (k, s) in enumerate(zip(keys, ["x", None, ""], strict=True))]
        )
    session.run()
    assert query.table().num_rows == 2 and text.table().num_rows == 2
    assert session.stats()["bad"] == {"a": 0, "b": 0}


def test_missing_and_impossible_times_are_dead_letters(session: Session) -> None:
    query = session.query("q", "SELECT k FROM a")
    far = pa.array([None, 2**62, -(2**62), 5], pa.timestamp("us"))
    session.push("a", pa.table({"k": [1.0, 2.0, 3.0, 4.0], "s": ["p", "q", "r", "s"], "ts": far}))
    session.run()
    assert query.table().column("k").to_pylist() == [4.0]
    letters = session.dead_letters("a").to_pylist()
    assert [row["s"] for row in letters] == ["p", "q", "r"]
    assert all(row["_reason"].startswith("bad") for row in letters)


def test_values_of_the_wrong_type_are_kept_as_text(session: Session) -> None:
    query = session.query("q", "SELECT k FROM a")
    session.push("a", [{"k": "abc", "s": "x", "ts": 1}, {"k": 2.5, "s": "y", "ts": 2}])
    session.run()
    assert query.table().column("k").to_pylist() == [2.5]
    (letter,) = session.dead_letters("a").to_pylist()
    assert letter["k"] == "abc" and letter["_reason"].startswith("bad")


def test_a_file_without_a_column_and_a_broken_file_among_good_ones(tmp_path: Path) -> None:
    times = pa.array([datetime(2024, 1, 1, 0, 0, i) for i in range(3)], pa.timestamp("us"))
    for number in (1, 4):
        parquet.write_table(pa.table({"k": [1, 2, 3], "ts": times}), tmp_path / f"{number}.parquet")
    parquet.write_table(pa.table({"ts": times}), tmp_path / "2.parquet")
    whole = (tmp_path / "1.parquet").read_bytes()
    (tmp_path / "3.parquet").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "0.parquet").write_bytes(b"")
    session = Session()
    session.execute(f"CREATE STREAM a (k BIGINT, ts TIMESTAMP) WITH (time='ts', path='{tmp_path}', lateness='1 hour')")
    query = session.query("q", "SELECT k FROM a")
    session.run()
    assert sorted(query.table().column("k").to_pylist()) == [1, 1, 2, 2, 3, 3]
    reasons = session.dead_letters("a").column("_reason").to_pylist()
    assert len(reasons) == 5
    assert (
        sum("2.parquet" in r for r in reasons) == 3
        and any("3.parquet" in r for r in reasons)
        and any("0.parquet" in r for r in reasons)
    )


def test_rows_pushed_under_unknown_names_are_refused(session: Session) -> None:
    session.query("q", "SELECT k FROM a")
    with pytest.raises(UserError, match="nobody"):
        session.push("a", [{"nobody": 1, "ts": 1}])
    with pytest.raises(UserError, match="there is no stream"):
        session.push("zebra", [])


def test_an_unbounded_store_can_be_refused(session: Session) -> None:
    session.query("grows", "SELECT a.k FROM a, b [RANGE 1 MINUTE] WHERE a.k = b.k")
    assert any("grows for ever" in warning for warning in session.warnings)
    with pytest.raises(UserError, match="grows for ever"):
        session.query("refused", "SELECT a.k FROM a, b WHERE a.k = b.k", unbounded="error")


def test_thirty_two_references_are_the_most(session: Session) -> None:
    names = [f"x{i}" for i in range(33)]
    joined = ", ".join(f"a [ROWS 1] {name}" for name in names)
    with pytest.raises(UserError, match="at most 32"):
        session.query("q", f"SELECT x0.k FROM {joined}")
