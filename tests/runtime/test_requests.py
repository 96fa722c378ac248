"""Templates in sessions and job files: when requests are answered, what is refused, what a restart keeps."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline import Session
from eddyline.errors import BindingProblem, EddylineError, UserError
from eddyline.runtime.engine.units.templates import TemplateKind
from eddyline.testing.clocks import MovedClock

WORLD = """
CREATE STREAM packets (src STRING, len INT, ts TIMESTAMP) WITH (time = 'ts');
CREATE TEMPLATE traffic WITH (history = '1 minute') AS
  SELECT src, SUM(len) AS bytes, COUNT(*) AS n FROM packets [RANGE 10 SECONDS] GROUP BY src;
"""


def opened(**options: object) -> Session:
    session = Session(**options)  # type: ignore[arg-type]
    session.execute(WORLD)
    return session


def at(second: float) -> str:
    return f"2024-01-01 10:{int(second // 60):02d}:{second % 60:09.6f}"


def packets(*seconds: int) -> list[tuple[str, int, str]]:
    return [("a" if second % 2 else "b", second, at(second)) for second in seconds]


def test_before_the_first_row_the_window_is_empty() -> None:
    session = opened()
    assert session.request("bytes, n FROM traffic GROUP BY ()").to_pylist() == [{"bytes": None, "n": 0, "_ts": None}]
    assert session.request("* FROM traffic").num_rows == 0


def test_a_request_sees_what_was_pushed_before_it() -> None:
    session = opened()
    session.push("packets", packets(1, 2, 3))
    found = session.request("src, bytes FROM traffic").to_pylist()
    # The newest row waits for the frontier.
    assert sorted((row["src"], row["bytes"]) for row in found) == [("a", 1), ("b", 2)]
    assert found[0]["_ts"] == datetime(2024, 1, 1, 10, 0, 2, 999999)


def test_instants_in_the_past() -> None:
    session = opened()
    session.push("packets", packets(1, 2, 30))
    assert session.request("n FROM traffic GROUP BY ()", as_of=at(1.5)).to_pylist()[0]["n"] == 1
    assert session.request(f"n FROM traffic GROUP BY () AS OF TIMESTAMP '{at(5)}'").to_pylist()[0]["n"] == 2
    assert session.request("n FROM traffic GROUP BY ()", as_of=datetime(2024, 1, 1, 10, 0, 29)).to_pylist()[0]["n"] == 0
    session.push("packets", packets(100, 101))
    with pytest.raises(UserError, match="too old") as told:
        session.request("n FROM traffic GROUP BY ()", as_of=at(2))
    assert "2024-01-01 10:00:40" in str(told.value)


def test_an_instant_ahead_is_refused_without_a_background() -> None:
    session = opened()
    session.push("packets", packets(1, 2))
    with pytest.raises(UserError, match="lies ahead"):
        session.request("n FROM traffic", as_of=at(50))


def once_waiting(session: Session, act: Callable[[], object]) -> threading.Thread:
    """Act as soon as a request waits, however long it takes to get there; the answer comes of that."""

    def watch() -> None:
        limit = time.monotonic() + 240
        while not session.pipeline.kinds.one(TemplateKind).unit("traffic").waiting and time.monotonic() < limit:
            time.sleep(0.001)
        act()

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def test_an_instant_ahead_waits_in_the_background() -> None:
    with opened() as session:
        session.start()
        session.push("packets", packets(1, 2))
        with pytest.raises(UserError, match="not answered within"):
            session.request("n FROM traffic GROUP BY ()", as_of=at(5), timeout=0.1)
        later = once_waiting(session, lambda: session.push("packets", packets(4, 9)))
        assert session.request("n FROM traffic GROUP BY ()", as_of=at(5), timeout=240).to_pylist()[0]["n"] == 3
        later.join()


def test_a_list_is_answered_together() -> None:
    session = opened()
    session.push("packets", packets(*range(20)))
    tables = session.request(
        ["n FROM traffic WHERE src = 'a' GROUP BY ()", "REQUEST n FROM traffic [RANGE 1 SECOND] GROUP BY ()"]
    )
    assert [table.to_pylist()[0]["n"] for table in tables] == [5, 1]


def test_requests_of_a_job_file_are_answered_at_its_end(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for _ in range(2):
        session = opened(out=str(out), overwrite=True)
        session.execute("REQUEST n FROM traffic GROUP BY (); REQUEST src, bytes FROM traffic WHERE src = 'b';")
        session.push("packets", packets(1, 2, 4))
        session.run()
    assert sorted(path.name for path in (out / "_requests").iterdir()) == ["1.parquet", "2.parquet"]
    assert not (out / "traffic").exists()
    # A bounded end moves the frontier just past the newest row.
    assert parquet.read_table(out / "_requests" / "1.parquet").to_pylist() == [
        {"n": 3, "_ts": datetime(2024, 1, 1, 10, 0, 4)}
    ]
    assert parquet.read_table(out / "_requests" / "2.parquet").column("bytes").to_pylist() == [6]


def test_a_stream_of_requests_from_python() -> None:
    from eddyline.model.datatypes import BIGINT, STRING, TIMESTAMP

    session = opened()
    asks = session.requests(
        "asks", "traffic", {"id": BIGINT, "src": STRING, "what": STRING, "ts": TIMESTAMP}, time="ts", aggregates="what"
    )
    session.push("packets", packets(1, 2, 3, 9))
    session.push("asks", [(7, "a", "n", at(3)), (8, None, None, at(3)), (9, "a", "nothing", at(3))])
    session.run()
    found = asks.table().to_pylist()
    assert [(row["id"], row["src"], row["bytes"], row["n"]) for row in found] == [
        (7, "a", None, 2),
        (8, "a", 4, 2),
        (8, "b", 2, 1),
    ]
    assert session.dead_letters("asks").to_pylist()[0]["_reason"] == "bad: the template has no aggregate nothing"


def test_rows_are_kept_for_a_stream_of_requests_that_is_behind() -> None:
    session = opened()
    session.execute("CREATE REQUESTS asks (id BIGINT, ts TIMESTAMP) FOR traffic WITH (time = 'ts');")
    session.push("packets", packets(*range(300)))
    session.step()
    session.push("asks", [(1, at(5)), (2, at(200))])
    session.run()
    found = [(row["id"], row["src"], row["n"]) for row in session.queries["asks"].table().to_pylist()]
    assert sorted(found) == [(1, "a", 3), (1, "b", 3), (2, "a", 5), (2, "b", 6)]


def test_rows_leave_when_no_request_can_ask_for_them() -> None:
    session = opened()
    session.push("packets", packets(*range(300)))
    session.step()
    # The window, the history, and rows at the edge.
    assert sum(stream.store.live for stream in session.pipeline.stores()) <= 72


def test_a_dropped_template_lets_go_of_its_rows() -> None:
    session = opened()
    session.execute("CREATE REQUESTS asks (id BIGINT, ts TIMESTAMP) FOR traffic WITH (time = 'ts');")
    with pytest.raises(BindingProblem, match="is read by"):
        session.execute("DROP TEMPLATE traffic;")
    session.push("packets", packets(1, 2, 3))
    session.push("asks", [(1, at(2)), (2, at(4))])
    session.step()
    session.execute("DROP REQUESTS asks;")
    session.execute("DROP TEMPLATE traffic;")
    with pytest.raises(BindingProblem, match="no template"):
        session.request("n FROM traffic")
    session.push("packets", packets(90, 91))
    session.step()
    # The frontier has passed the instants at which both were dropped.
    assert not session.pipeline.timelines
    session.execute("DROP STREAM packets;")
    assert not session.pipeline.intakes


def test_a_restart_keeps_rows_and_the_index(tmp_path: Path) -> None:
    first = opened(checkpoint=str(tmp_path / "state"))
    first.push("packets", packets(1, 2, 3, 4))
    first.step()
    unit = first.pipeline.kinds.one(TemplateKind).unit("traffic")
    from eddyline.operators.template.blocks import Fields

    assert unit.registered.index is not None
    unit.registered.index.reconfigure(Fields((3,)))
    first.stop()
    second = opened(checkpoint=str(tmp_path / "state"))
    assert second.request("n FROM traffic GROUP BY ()").to_pylist()[0]["n"] == 3
    assert second.pipeline.kinds.one(TemplateKind).unit("traffic").registered.address_bits == (3,)


def test_rows_at_the_far_edge_of_the_window_are_kept() -> None:
    session = opened()
    # The frontier is at second 80; the window of the instant before it, a minute earlier, begins with the first row.
    session.push(
        "packets",
        [("a", 1, at(9.999999)), ("b", 2, at(9.999998)), ("a", 4, at(19.999999)), ("b", 8, at(50)), ("b", 16, at(80))],
    )
    session.step()
    found = session.request("bytes FROM traffic GROUP BY ()", as_of=at(19.999999))
    assert found.to_pylist()[0]["bytes"] == 5


def test_rows_are_kept_for_a_request_that_waits() -> None:
    with opened() as session:
        session.start()
        session.push("packets", packets(1, 2))
        later = once_waiting(session, lambda: session.push("packets", packets(4, 900, 901)))
        assert session.request("n FROM traffic GROUP BY ()", as_of=at(5), timeout=240).to_pylist()[0]["n"] == 3
        later.join()


def test_late_requests_are_dead_letters() -> None:
    session = opened()
    session.execute("CREATE REQUESTS asks (id BIGINT, ts TIMESTAMP) FOR traffic WITH (time = 'ts');")
    session.push("packets", packets(1, 2, 9))
    session.push("asks", [(1, at(5)), (2, at(6))])
    session.step()
    session.push("asks", [(3, at(4)), (4, at(8))])
    session.run()
    assert sorted({row["id"] for row in session.queries["asks"].table().to_pylist()}) == [1, 2, 4]
    letters = session.dead_letters("asks").to_pylist()
    assert [(row["id"], row["_reason"][:4]) for row in letters] == [("3", "late")]


def test_a_template_without_rows_answers() -> None:
    session = opened()
    session.execute(
        "CREATE REQUESTS asks (id BIGINT, src STRING, what STRING, ts TIMESTAMP) FOR traffic WITH (time = 'ts', group_by = 'what');"
    )
    # No row satisfies its condition, and the stream goes on.
    session.execute(
        "CREATE TEMPLATE nothing AS SELECT src, COUNT(*) AS n FROM packets [ROWS 3] WHERE len > 1000 GROUP BY src;"
    )
    session.push("packets", packets(1, 2, 20))
    assert session.request("n FROM nothing GROUP BY ()").to_pylist()[0]["n"] == 0
    assert session.request("* FROM nothing").num_rows == 0
    session.push("asks", [(1, "zz", "", at(3)), (2, "zz", "src", at(3)), (3, None, "", at(3))])
    session.run()
    found = [(row["id"], row["src"], row["bytes"], row["n"]) for row in session.queries["asks"].table().to_pylist()]
    assert found == [(1, None, None, 0), (3, None, 3, 2)]


def test_windows_of_no_length_and_bits_at_the_limits() -> None:
    session = opened()
    for bits in (0, 24):
        session.execute(
            f"CREATE TEMPLATE t{bits} WITH (bits = {bits}, index = 'imp') AS SELECT src, len, COUNT(*) AS n FROM packets [RANGE 9 SECONDS] "
            "GROUP BY src, len;"
        )
    session.push("packets", packets(*range(80)))
    for bits in (0, 24):
        # The window that is left out is kept as history.
        assert session.request(f"n FROM t{bits} [RANGE 0 SECONDS] GROUP BY ()", as_of=at(70)).to_pylist()[0]["n"] == 1
        with pytest.raises(UserError, match="too old"):
            session.request(f"n FROM t{bits} [RANGE 0 SECONDS] GROUP BY ()", as_of=at(69.5))
        assert session.request(f"n FROM t{bits} WHERE src = 'a' AND len IN (77, 75, 5, NULL)").num_rows == 2
    for bits in ("-1", "25", "'many'"):
        with pytest.raises(BindingProblem, match="bits cannot be"):
            session.execute(
                f"CREATE TEMPLATE wrong WITH (bits = {bits}) AS SELECT src, COUNT(*) AS n FROM packets [ROWS 3] GROUP BY src;"
            )


def test_explanations() -> None:
    session = opened()
    (text,) = session.execute("EXPLAIN TEMPLATE traffic;")
    assert "traffic" in text and "auto" in text
    (text,) = session.execute("EXPLAIN REQUEST bytes FROM traffic [RANGE 5 SECONDS] WHERE src = 'a' GROUP BY ();")
    assert "fixes: src" in text and "access path: index" in text
    (text,) = session.execute("EXPLAIN REQUEST bytes FROM traffic WHERE src > 'a';")
    assert "fixes: nothing" in text and "ranges: src" in text
    session.execute(
        "SET template_index = 'hash(src, len)';CREATE TEMPLATE h AS SELECT src, len, COUNT(*) AS n FROM packets [ROWS 9] GROUP BY src, len;"
    )
    for where, path in (
        ("src = 'a'", "scan"),
        ("src = 'a' AND len IN (1, 2)", "index"),
        ("src = 'a' AND len > 1", "scan"),
    ):
        (text,) = session.execute(f"EXPLAIN REQUEST n FROM h WHERE {where};")
        assert f"access path: {path}" in text, where
    with pytest.raises(BindingProblem, match="did you mean traffic"):
        session.execute("EXPLAIN TEMPLATE trafic;")


@pytest.mark.parametrize("rows", ["read", "coming"])
def test_a_template_that_goes_while_a_request_waits(rows: str) -> None:
    """It stands until its last rows are read: the error of a request says that its instant lies ahead, or that the
    template has gone."""
    with opened() as session:
        session.start()
        session.push("packets", packets(1, 2))
        gone: list[BaseException] = []

        def ask() -> None:
            try:
                session.request("n FROM traffic GROUP BY ()", as_of=at(50), timeout=240)
            except UserError as problem:
                gone.append(problem)

        asking = threading.Thread(target=ask)
        asking.start()
        template = session.pipeline.kinds.one(TemplateKind).unit("traffic")
        limit = time.monotonic() + 240
        while (not template.waiting or (rows == "read" and template.frontier is None)) and time.monotonic() < limit:
            time.sleep(0.001)
        session.execute("DROP TEMPLATE traffic;")
        asking.join(timeout=240)
        assert "lies ahead" in str(gone[0]) or "template traffic has been dropped" in str(gone[0])


def test_a_stream_of_requests_sees_rows_of_an_idle_stream_that_wait() -> None:
    """The template's stream is silent: it holds neither the requests back nor rows that came before it fell silent."""
    clock = MovedClock()
    with Session(clock=clock) as session:
        session.execute("""
            CREATE STREAM packets (src STRING, len INT, ts TIMESTAMP) WITH (time = 'ts', lateness = '10 seconds', idle = '1 hour');
            CREATE TEMPLATE traffic AS SELECT src, SUM(len) AS bytes, COUNT(*) AS n FROM packets [RANGE 1 MINUTE] GROUP BY src;
            CREATE REQUESTS asks (src STRING, ts TIMESTAMP) FOR traffic WITH (time = 'ts', format = 'memory');
            CREATE QUERY all_packets AS SELECT src, len FROM packets;
        """)
        session.push("packets", packets(1, 3, 5, 20))
        session.push("asks", [("a", at(2))])
        session.step()
        clock.advance(2 * 3_600)
        session.push("asks", [("a", at(30)), ("b", at(31)), ("b", at(40))])
        session.step()
        found = [(row["src"], row["n"], row["_ts"].second) for row in session.queries["asks"].take().to_pylist()]
        assert found == [("a", 1, 2), ("a", 3, 30), ("b", 1, 31)]
        # A query over the stream alone has not moved on, and still takes what comes.
        assert session.queries["all_packets"].take().num_rows == 3
        session.push("packets", packets(12))
        session.run(once=True)
        assert session.queries["all_packets"].table().num_rows == 2
        assert [row["n"] for row in session.queries["asks"].table().to_pylist()] == [2]


@pytest.mark.parametrize(
    ("text", "as_of", "message"),
    [
        ("n, n FROM t GROUP BY ()", None, "column n is asked for twice"),
        ("N, total, n FROM t GROUP BY ()", None, "column n is asked for twice"),
        ("n FROM t WHERE k = 2147483648 GROUP BY ()", None, "2147483648 is not a INT"),
        ("n FROM t WHERE k > -9223372036854775808 GROUP BY ()", None, "-9223372036854775808 is not a INT"),
        ("n FROM t WHERE k IN (1, 1.5) GROUP BY ()", None, "1.5 is not a INT"),
        ("n FROM t GROUP BY ()", 5, "as_of is 5"),
        (5, None, "a request is a text, not 5"),
        (["n FROM t", None], None, "a request is a text, not None"),
    ],
)
def test_what_is_no_request_is_refused_with_its_reason(text: str, as_of: str | None, message: str) -> None:
    session = Session()
    session.execute(
        "CREATE STREAM s (k INT, v INT, ts TIMESTAMP) WITH (time = 'ts');"
        "CREATE TEMPLATE t AS SELECT k, SUM(v) AS total, COUNT(*) AS n FROM s [RANGE 9 SECONDS] GROUP BY k;"
    )
    session.push("s", [(1, 5, 0), (1, 6, 1_000_000)])
    with pytest.raises(EddylineError) as refused:
        session.request(text, as_of)
    assert refused.value.message == message
    # The session answers on.
    assert session.request("n FROM t WHERE k IN (1, 1) GROUP BY ()").to_pylist()[0]["n"] == 1


def test_a_column_may_be_grouped_by_twice() -> None:
    session = Session()
    session.execute(
        "CREATE STREAM s (k INT, j INT, ts TIMESTAMP) WITH (time = 'ts');"
        "CREATE TEMPLATE t AS SELECT k, j, COUNT(*) AS n FROM s [RANGE 9 SECONDS] GROUP BY k, j;"
        "CREATE REQUESTS asks (id BIGINT, groups STRING, what STRING, ts TIMESTAMP) FOR t "
        "WITH (time = 'ts', group_by = 'groups', aggregates = 'what');"
    )
    tables: list[pa.Table] = []
    session.on_results("asks", tables.append)
    session.push("s", [(1, 5, 0), (1, 6, 0), (2, 6, 2_000_000)])
    assert (
        session.request("k, n FROM t GROUP BY k, k").to_pylist()
        == session.request("k, n FROM t GROUP BY k").to_pylist()
    )
    session.push("asks", [(1, "k, k", "n,n", 1_000_000), (2, " K ,", " N", 1_000_000), (3, "", "", 1_500_000)])
    session.step()
    found = [(r["id"], r["k"], r["j"], r["n"]) for table in tables for r in table.to_pylist()]
    assert found == [(1, 1, None, 2), (2, 1, None, 2)]


def test_windows_that_a_stream_of_requests_cannot_have_are_dead_letters() -> None:
    """Negative ones and longer ones; none of zero rows, while one of no length has the rows of its instant."""
    session = Session()
    session.execute(
        "CREATE STREAM s (k INT, ts TIMESTAMP) WITH (time = 'ts');"
        "CREATE TEMPLATE spans AS SELECT k, COUNT(*) AS n FROM s [RANGE 9 SECONDS] GROUP BY k;"
        "CREATE TEMPLATE counted AS SELECT k, COUNT(*) AS n FROM s [ROWS 2] GROUP BY k;"
        "CREATE REQUESTS a (id BIGINT, span BIGINT, ts TIMESTAMP) FOR spans WITH (time = 'ts', window = 'span');"
        "CREATE REQUESTS b (id BIGINT, span BIGINT, ts TIMESTAMP) FOR counted WITH (time = 'ts', window = 'span');"
    )
    tables: dict[str, list[pa.Table]] = {"a": [], "b": []}
    for name, found in tables.items():
        session.on_results(name, found.append)
    session.push("s", [(1, 0), (1, 1_000_000), (1, 1_000_000), (1, 5_000_000)])
    for name in tables:
        session.push(
            name, [(size, size, 1_000_000) for size in (-(1 << 63), -1, 0, 1, 2, 9_000_000, 9_000_001, (1 << 63) - 1)]
        )
    session.run()
    answers = {name: [(r["id"], r["n"]) for t in found for r in t.to_pylist()] for name, found in tables.items()}
    assert answers == {"a": [(0, 2), (1, 2), (2, 2), (9_000_000, 3)], "b": [(1, 1), (2, 2)]}
    letters = {name: [int(r["id"]) for r in session.dead_letters(name).to_pylist()] for name in tables}
    assert letters["a"] == [-(1 << 63), -1, 9_000_001, (1 << 63) - 1]
    assert letters["b"] == [-(1 << 63), -1, 0, 9_000_000, 9_000_001, (1 << 63) - 1]
    assert session.dead_letters("b").to_pylist()[2]["_reason"] == "bad: a window of 0, and the template has 2"


def test_numbers_are_compared_with_decimals() -> None:
    """A number is the decimal of the column's type; one that is none is refused, as for whole numbers."""
    session = Session()
    session.execute(
        "CREATE STREAM s (price DECIMAL(10, 2), large DECIMAL(20, 2), ts TIMESTAMP) WITH (time = 'ts');"
        "CREATE TEMPLATE t AS SELECT price, large, COUNT(*) AS n FROM s [RANGE 1 HOUR] GROUP BY price, large;"
    )
    values = ["0.10", "0.20", "1.50", "-1.50", "2.00", "99999999.99", None, "0.00"]
    session.push("s", [(v and Decimal(v), v and Decimal(v), number) for number, v in enumerate(values)])
    for condition, count in (
        ("price = 0.1", 1), ("price = 1.50", 1), ("1.5 = price", 1), ("price IN (1.5, -1.5, 2, 7)", 3), ("price > 0", 5), ("2 <= price", 2),
        ("price BETWEEN 0.1 AND 1.5", 3), ("price = 99999999.99", 1), ("price <> 2", 5), ("price = 0.1 OR price = 2", 2), ("large = 2", 1),
        ("large = '0.10'", 1), ("price = NULL", 0), ("price IS NULL", 1),
    ):  # fmt: skip
        assert session.request(f"n FROM t WHERE {condition} GROUP BY ()").to_pylist()[0]["n"] == count, condition
    for condition in (
        "price = 0.105",
        "price = 1e9",
        "price > 100000000",
        "large = 0.1",
        "price = 0.1 AND price < 0.125",
    ):
        with pytest.raises(BindingProblem, match="is not a DECIMAL") as refused:
            session.request(f"n FROM t WHERE {condition}")
        assert "as a text" in refused.value.hint


def test_an_instant_with_a_zone_is_that_instant() -> None:
    session = opened()
    session.push("packets", packets(1, 2, 30))
    east = timezone(timedelta(hours=2))
    found = session.request("n FROM traffic GROUP BY ()", as_of=datetime(2024, 1, 1, 12, 0, 1, tzinfo=east)).to_pylist()
    assert found == [{"n": 1, "_ts": datetime(2024, 1, 1, 10, 0, 1)}]


def test_the_word_request_and_columns_with_that_name() -> None:
    session = Session()
    session.execute(
        "CREATE STREAM s (request INT, ts TIMESTAMP) WITH (time = 'ts');"
        "CREATE TEMPLATE t AS SELECT request, COUNT(*) AS requests FROM s [RANGE 1 HOUR] GROUP BY request;"
    )
    session.push("s", [(1, 0), (1, 1), (2, 2)])
    for text in (
        "requests FROM t", "REQUEST requests FROM t", "-- of today\nREQUEST requests FROM t;", "/* all */ requests FROM t",
        "\n;requests FROM t", "request, requests FROM t", "REQUEST request, requests FROM t",
    ):  # fmt: skip
        assert [row["requests"] for row in session.request(text).to_pylist()] == [2], text
    assert session.request("request FROM t").to_pylist()[0]["request"] == 1
    with pytest.raises(BindingProblem) as refused:
        session.request("requests\nFROM t WHERE x = 5")
    assert str(refused.value.position) == "line 2, column 14"
    with pytest.raises(EddylineError, match="there is no request"):
        session.request(" -- nothing")


def test_a_longer_history_reaches_back_to_what_was_kept(tmp_path: Path) -> None:
    """Rows that have left under the history of an earlier run are gone: instants that need them are refused, also after
    another restart."""

    def run(history: int, *seconds: int) -> Session:
        session = Session(checkpoint=str(tmp_path / "state"))
        session.execute(
            "SET checkpoint_seconds = 0; CREATE STREAM packets (src STRING, len INT, ts TIMESTAMP) WITH (time = 'ts');"
            f"CREATE TEMPLATE traffic WITH (history = '{history} seconds') AS "
            "SELECT src, COUNT(*) AS n FROM packets [RANGE 10 SECONDS] GROUP BY src;"
        )
        session.push("packets", packets(*seconds))
        session.step()
        return session

    def counted(session: Session, second: int, window: str = "") -> int:
        return session.request(f"n FROM traffic {window} GROUP BY ()", as_of=at(second)).to_pylist()[0]["n"]

    run(5, *range(101)).stop()
    for seconds in (range(101, 131), range(131, 132)):
        session = run(60, *seconds)
        assert counted(session, 95) == 11 and counted(session, 90, "[RANGE 5 SECONDS]") == 6
        for second in (94, 80, 70):
            with pytest.raises(UserError, match="too old") as told:
                counted(session, second)
            assert "instants from 2024-01-01 10:01:34.999999 on" in told.value.detail
        session.stop()


def test_other_roles_of_columns_are_another_stream_of_requests(tmp_path: Path) -> None:
    def opened_with(roles: str) -> Session:
        session = opened(checkpoint=str(tmp_path / "state"))
        session.execute(
            f"CREATE REQUESTS asks (id BIGINT, span BIGINT, ts TIMESTAMP) FOR traffic WITH (time = 'ts'{roles});"
        )
        session.step()
        return session

    opened_with(", window = 'span'").stop()
    with pytest.raises(EddylineError, match="query asks is not the one in the checkpoint"):
        opened_with("")
    opened_with(", window = 'span'").stop()


def test_a_template_without_aggregates() -> None:
    """A request that groups by nothing has one row, also where it has no column but the instant."""
    session = Session()
    session.execute(
        "CREATE STREAM s (k INT, ts TIMESTAMP) WITH (time = 'ts'); CREATE TEMPLATE t AS SELECT k FROM s [RANGE 9 SECONDS] GROUP BY k;"
    )
    session.push("s", [(1, 0), (1, 1), (2, 2), (3, 3)])
    assert session.request("* FROM t GROUP BY ()").to_pylist() == [{"_ts": datetime(1970, 1, 1, 0, 0, 0, 2)}]
    assert [row["k"] for row in session.request("k FROM t").to_pylist()] == [1, 2]
    assert [row["k"] for row in session.request("* FROM t WHERE k = 2").to_pylist()] == [2]
    found = session.request(
        ["* FROM t WHERE k = 2 GROUP BY ()", "k FROM t WHERE k = 5", "k FROM t WHERE k IN (1, 2, 3)"]
    )
    assert [table.num_rows for table in found] == [1, 0, 2]


def test_answers_are_tables_of_the_same_kind_alone_and_together() -> None:
    session = opened()
    session.push("packets", packets(*range(20)))
    texts = [
        "bytes, src FROM traffic WHERE src = 'a'", "n FROM traffic GROUP BY ()", "n, bytes FROM traffic WHERE src = 'zz' GROUP BY ()",
        "* FROM traffic WHERE src = 'zz'", "src FROM traffic", "n FROM traffic WHERE src IN ('a', 'b') GROUP BY ()",
    ]  # fmt: skip
    for text, together in zip(texts, session.request(texts), strict=True):
        alone = session.request(text)
        assert alone.equals(together) and alone.schema.equals(together.schema), text


def test_a_crash_repeats_no_answer_and_loses_no_request_that_waits(tmp_path: Path) -> None:
    def begun() -> Session:
        session = opened(checkpoint=str(tmp_path / "state"), out=str(tmp_path / "out"))
        session.execute("CREATE REQUESTS asks (id BIGINT, src STRING, ts TIMESTAMP) FOR traffic WITH (time = 'ts');")
        return session

    first = begun()
    first.set("checkpoint_seconds", 0)
    first.push("packets", packets(1, 2, 3))
    first.push("asks", [(1, None, at(2)), (2, None, at(50)), (3, "a", at(60))])
    first.step()
    first._runner.abandon()
    with begun() as second:
        second.push("packets", packets(42, 55, 70))
        second.run()
    found = parquet.read_table(tmp_path / "out" / "asks").to_pylist()
    assert sorted((row["id"], row["src"], row["n"]) for row in found) == [
        (1, "a", 1),
        (1, "b", 1),
        (2, "b", 1),
        (3, "a", 1),
    ]
