"""Functions of one's own: how their code is called, what failures do, where code is found, what a restart needs."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from eddyline import Session
from eddyline.errors import BindingProblem, DataProblem, UserError
from eddyline.language import bind_script
from eddyline.runtime.recovery.catalog_text import catalog_text

STREAM = "CREATE STREAM s (x BIGINT, t STRING, m DECIMAL(10, 2), ts TIMESTAMP) WITH (time = 'ts')"
ROWS = [
    {"x": 1, "t": "a", "m": Decimal("1.50"), "ts": 0},
    {"x": 3, "t": None, "m": Decimal("2.25"), "ts": 1},
    {"x": None, "t": "c", "m": None, "ts": 2},
    {"x": 4, "t": "d", "m": Decimal("0.75"), "ts": 3},
]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module beside the job; it notes that it was imported."""
    (tmp_path / "prices_of_a_test.py").write_text(
        "import pyarrow.compute as pc\nclass Tax:\n    @staticmethod\n    def gross(x):\n        return pc.multiply(x, 2)\nrate = 7\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "prices_of_a_test"
    sys.modules.pop("prices_of_a_test", None)


def ask(session: Session, select: str) -> list[object]:
    query = session.query("q", f"SELECT {select} AS v FROM s")
    session.push("s", ROWS)
    session.run(once=True)
    return query.take().column("v").to_pylist()


def test_a_function_gets_whole_columns() -> None:
    seen: list[int] = []

    def add(x: pa.Array, m: pa.Array) -> pa.Array:
        seen.append(len(x))
        return pc.add(x.cast(pa.decimal128(19, 0)), m)

    with Session() as session:
        session.execute(STREAM)
        session.function("add", add, {"x": "BIGINT", "m": pa.decimal128(10, 2)}, "DECIMAL(38, 2)")
        assert ask(session, "add(x, m)") == [Decimal("2.50"), Decimal("5.25"), None, Decimal("4.75")]
    assert seen == [4]


def test_a_function_of_constants_is_called_with_the_rows() -> None:
    """Its code may give another value each time: the planner does not compute it beforehand."""
    calls: list[int] = []

    def count(x: pa.Array) -> pa.Array:
        calls.append(len(x))
        return pa.array([len(calls)] * len(x), pa.int64())

    with Session() as session:
        session.execute(STREAM)
        session.function("calls", count, ["BIGINT"], "BIGINT")
        query = session.query("q", "SELECT calls(7) AS v FROM s")
        assert not calls
        found = []
        for rows in (ROWS[:2], ROWS[2:]):
            session.push("s", rows)
            session.run(final=False)
            found.append(set(query.take().column("v").to_pylist()))
    assert found == [{1}, {2}]


def test_numpy_sees_no_nulls_and_its_types() -> None:
    seen: list[tuple[str, int]] = []

    def stamp(x: np.ndarray, t: np.ndarray, ts: np.ndarray) -> np.ndarray:
        seen.append((f"{x.dtype} {t.dtype} {ts.dtype}", len(x)))
        return ts + x.astype("timedelta64[s]")

    with Session() as session:
        session.execute(STREAM)
        session.function("stamp", stamp, ["BIGINT", "STRING", "TIMESTAMP"], "TIMESTAMP", arrays="numpy")
        found = ask(session, "stamp(x, t, ts)")
    first = datetime.datetime(1970, 1, 1)
    assert found == [
        first + datetime.timedelta(seconds=1),
        None,
        None,
        first + datetime.timedelta(seconds=4, microseconds=3),
    ]
    assert seen == [("int64 object datetime64[us]", 2)]


def test_a_row_that_raises_has_no_value_and_is_counted() -> None:
    def fails_at_three(x: np.ndarray) -> np.ndarray:
        if (x == 3).any():
            raise ValueError("three")
        return x * 10

    with Session() as session:
        session.execute(STREAM)
        session.function("f", fails_at_three, ["BIGINT"], "BIGINT", arrays="numpy")
        assert ask(session, "f(x)") == [10, None, None, 40]
        assert session.stats()["null_results"] == {"f": 1}


def test_only_rows_that_are_asked_for_are_computed() -> None:
    asked: list[int] = []

    def note(x: pa.Array) -> pa.Array:
        asked.extend(x.to_pylist())
        return x

    with Session() as session:
        session.execute(STREAM)
        session.function("note", note, ["BIGINT"], "BIGINT")
        assert ask(session, "CASE WHEN x > 1 THEN note(x) ELSE 0 END") == [0, 3, 0, 4]
    assert asked == [3, 4]


@pytest.mark.parametrize(
    "returned",
    [
        lambda x: pa.array([1]),
        lambda x: [1] * len(x),
        lambda x: pa.array(["no"] * len(x)),
        lambda x: pc.add(x, 1 << 40),
    ],
)
def test_results_that_do_not_fit_are_failures(returned: object) -> None:
    with Session() as session:
        session.execute(STREAM)
        session.function(
            "f", lambda x, returned=returned: returned(pc.fill_null(x, 0)) if len(x) > 0 else x, ["BIGINT"], "INT"
        )
        found = ask(session, "f(x)")
        assert len(found) == 4 and session.stats()["null_results"].get("f", 0) == found.count(None)


def test_on_bad_error_stops_the_job() -> None:
    def fails(x: pa.Array) -> pa.Array:
        raise ValueError("no")

    with pytest.raises(DataProblem, match="function f failed") as caught, Session() as session:
        session.execute(f"SET on_bad = 'error'; {STREAM}")
        session.function("f", fails, ["BIGINT"], "BIGINT")
        ask(session, "f(x)")
    assert "ValueError: no" in caught.value.detail


def test_a_function_by_its_place(module: str) -> None:
    with Session() as session:
        session.execute(f"{STREAM}; CREATE FUNCTION gross(x BIGINT) RETURNS BIGINT AS '{module}:Tax.gross'")
        assert ask(session, "gross(x + 1)") == [4, 8, None, 10]
        assert f"CREATE FUNCTION gross(x BIGINT) RETURNS BIGINT AS '{module}:Tax.gross'" in catalog_text(session.job)


@pytest.mark.parametrize("target", ["prices_of_a_test:none", "no_such_module_here:f", "prices_of_a_test:rate"])
def test_code_that_is_not_there_is_refused(module: str, target: str) -> None:
    with Session() as session:
        with pytest.raises(UserError, match="function f cannot be loaded"):
            session.execute(f"CREATE FUNCTION f(x BIGINT) RETURNS BIGINT AS '{target}'")
        assert not session.job.catalog.functions


def test_binding_a_catalog_imports_nothing(module: str) -> None:
    """What lies in a folder is bound to check queries; only a job imports what it names."""
    text = f"{STREAM}; CREATE FUNCTION gross(x BIGINT) RETURNS BIGINT AS '{module}:Tax.gross'; CREATE QUERY q AS SELECT gross(x) FROM s"
    job = bind_script(text)
    assert module not in sys.modules
    again = bind_script(catalog_text(job))
    assert again.catalog.functions == job.catalog.functions and module not in sys.modules


def test_the_text_of_a_catalog_keeps_the_setting() -> None:
    job = bind_script(
        "SET on_bad = 'error'; CREATE FUNCTION f(x BIGINT) RETURNS BIGINT AS 'a:b' WITH (arrays = 'numpy'); SET on_bad = 'dead-letter'"
    )
    assert bind_script(catalog_text(job)).catalog.functions == job.catalog.functions


def test_code_without_a_place_is_handed_over_again_after_a_restart(tmp_path: Path) -> None:
    def run(rows: list[dict[str, object]], hands_over: bool) -> list[object]:
        with Session(checkpoint=str(tmp_path / "ck")) as session:
            session.execute(STREAM)
            if hands_over:
                session.function("double", lambda x: pc.multiply(x, 2), ["BIGINT"], "BIGINT")
            query = session.query(
                "q", "SELECT a.x AS x FROM s [RANGE 1 MINUTE] a, s [RANGE 1 MINUTE] b WHERE double(a.x) = b.x"
            )
            session.push("s", rows)
            session.run(once=True)
            return query.table().column("x").to_pylist()

    assert run([{"x": 1, "ts": 0}], True) == []
    with pytest.raises(BindingProblem, match="there is no function double"):
        run([], False)
    assert run([{"x": 2, "ts": 1}], True) == [1]
    for file in (tmp_path / "ck").rglob("*"):
        assert file.is_dir() or b"lambda" not in file.read_bytes()


def test_functions_come_before_rows_and_stay_while_they_are_called() -> None:
    with Session() as session:
        session.execute(STREAM)
        session.function("f", lambda x: x, ["BIGINT"], "BIGINT")
        session.function("g", lambda x: x, ["BIGINT"], "BIGINT")
        session.query("q", "SELECT f(x) AS v FROM s")
        with pytest.raises(BindingProblem, match="function f is called by query q"):
            session.execute("DROP FUNCTION f")
        session.execute("DROP FUNCTION g")
        with pytest.raises(BindingProblem, match="there is no function g"):
            session.query("p", "SELECT g(x) AS v FROM s")
        session.push("s", ROWS)
        session.step()
        with pytest.raises(UserError, match="functions cannot be added to a running job"):
            session.function("h", lambda x: x, ["BIGINT"], "BIGINT")


def test_what_a_program_says_is_checked() -> None:
    with Session() as session:
        with pytest.raises(BindingProblem, match="there is a function upper already"):
            session.function("upper", lambda x: x, ["STRING"], "STRING")
        with pytest.raises(BindingProblem, match="cannot be called"):
            session.function("f", 7, ["STRING"], "STRING")
        with pytest.raises(BindingProblem, match="arrays does not take"):
            session.function("f", lambda x: x, ["STRING"], "STRING", arrays="pandas")
        with pytest.raises(BindingProblem, match="cannot take or return"):
            session.function("f", lambda x: x, [pa.month_day_nano_interval()], "STRING")
