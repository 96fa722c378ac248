"""Just-in-time joins: the published examples, and the histories on which the published rules lose or repeat results."""

from __future__ import annotations

import re
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline import Session
from eddyline.kernels import hashing
from tests.oracle.expressions import Call, Col
from tests.property.cliques import CONTROLS, MODES, colliding_values, column, paced, under
from tests.property.compare import differences
from tests.property.embedded import run_embedded
from tests.property.specs import Case, QuerySpec, Range, Reference, StreamSpec, Unbounded

SECOND = 1_000_000
EVERY = list(product(MODES, CONTROLS))


def history(text: str, plan: str, window: int | None = None) -> Case:
    """`a1@3(b2 c1)` is row a1 at second 3 whose column towards B is 2 and towards C is 1; one epoch per row."""
    rows = re.findall(r"([a-z])(\d+)(?:@(\d+))?\(([^)]*)\)", text)
    names = sorted({name for name, *_ in rows})
    span = Unbounded() if window is None else Range(window * SECOND)
    streams = tuple(
        StreamSpec(
            name,
            (
                ("n", "BIGINT"),
                *((column(name, other), "BIGINT") for other in names if other != name),
                ("ts", "TIMESTAMP"),
            ),
        )
        for name in names
    )
    where = tuple(
        Call("=", (Col(x, column(x, y), "BIGINT"), Col(y, column(y, x), "BIGINT"))) for x, y in combinations(names, 2)
    )
    outputs = tuple((name, Col(name, "n", "BIGINT")) for name in names)
    query = QuerySpec("q", tuple(Reference(name, name, span) for name in names), where, outputs, plan=plan)
    arrivals = []
    for place, (name, number, second, values) in enumerate(rows):
        towards = {value[0]: int(value[1:]) for value in values.split()}
        row = (int(number), *(towards[other] for other in names if other != name), int(second or place) * SECOND)
        arrivals.append(((name, (row,)),))
    return paced(Case(streams, (query,), tuple(arrivals)))


HISTORIES = {
    "both inputs of a consumer wait for each other": (
        "a1(b2 c1 d1) c1(a1 b2 d2) b1(a2 c1 d1) c2(a1 b1 d2) d1(a2 b1 c2) b2(a2 c1 d1) a2(b2 c1 d2)", "((a b) (c d))", None, None,
    ),
    "resuming by arrival times loses, by re-activation times repeats": (
        "c0(a9 b9) a0(b1 c1) b0(a1 c1) a1(b1 c1) b1(a1 c1) c1(a1 b8) c2(a1 b1)", "((a b) c)", None,
        {(0, 0, 2), (0, 1, 2), (1, 0, 2), (1, 1, 2)},
    ),
    "resumed rows ask like new ones": (
        "b1(a2 c1 d1) c1(a1 b1 d2) d1(a1 b1 c1) a1(b2 c1 d1) d2(a2 b1 c2) a2(b2 c1 d2)", "(((a b) c) d)", None, None,
    ),
    "what is missing outlives the row that showed it": (
        "c0@1(a9 b1) b1@2(a1 c1) a1@3(b1 c1) a2@6(b1 c1) b2@9(a1 c1) c1@12(a1 b1)", "((a b) c)", 8, {(2, 2, 1)},
    ),
    "only living nodes of the lattice are reported": ("b1(a1 c1) b2(a1 c1) c1(a1 b1) a1(b1 c1)", "((a b) c)", None, {(1, 1, 1), (1, 2, 1)}),
    "rows suspended, resumed and suspended again": (
        "a1@0(b1 c1) b1@1(a1 c1) c1@2(a1 b1) a2@9(b1 c1) b2@10(a1 c1) c2@11(a1 b1) b3@12(a1 c1) a3@20(b1 c1) b4@21(a1 c1) c3@22(a1 b1)",
        "((a b) c)", 4, {(1, 1, 1), (2, 2, 2), (2, 3, 2), (3, 4, 3)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HISTORIES)
def test_history_that_the_printed_rules_get_wrong(name: str) -> None:
    text, plan, window, wanted = HISTORIES[name]
    case = history(text, plan, window)
    for mode, control in EVERY:
        changed = under(case, jit=mode, jit_control=control)
        outcome = run_embedded(changed)
        assert not differences(case, outcome), (mode, control)
        if wanted is not None:
            assert {tuple(row[n] for n in sorted(row) if n != "_ts") for row in outcome.results["q"]} == wanted


def test_keys_that_hash_alike_are_told_apart() -> None:
    """c1 hashes like c2: when c1 comes nothing is made of a1 and b1, and c2 is no less new for that."""
    u, v = colliding_values()
    keys = hashing.combine(hashing.mix_all(np.array(u)), np.array(v))
    assert len(set(keys.tolist())) == 1
    text = f"c0(a99 b99) a1(b1 c{u[1]}) b1(a1 c{v[1]}) c1(a{u[2]} b{v[2]}) c2(a{u[1]} b{v[1]}) c3(a{u[1]} b{v[2]}) c4(a{u[2]} b{v[2]})"
    case = history(text, "((a b) c)")
    for mode, control in EVERY:
        outcome = run_embedded(under(case, jit=mode, jit_control=control))
        assert not differences(case, outcome), (mode, control)
        assert [row["c"] for row in outcome.results["q"]] == [2]


def test_table_one() -> None:
    """b1 b2 b3, then a1, b4, a2 without a row of C that joins them: nothing is made before c1 comes; then all eight
    are."""
    with Session() as session:
        session.set("plan", "((a b) c)")
        session.set("jit", "exact")
        for stream, columns in {
            "a": "n BIGINT, x BIGINT, y BIGINT",
            "b": "n BIGINT, x BIGINT",
            "c": "y BIGINT",
        }.items():
            session.execute(f"CREATE STREAM {stream} ({columns}, ts TIMESTAMP) WITH (time = 'ts', format = 'memory')")
        session.execute(
            "CREATE QUERY q AS SELECT a.n AS a, b.n AS b FROM a [RANGE 5 MINUTES], b [RANGE 5 MINUTES], c [RANGE 5 MINUTES] "
            "WHERE a.x = b.x AND a.y = c.y"
        )

        def at(second: int) -> np.datetime64:
            return np.datetime64(second * SECOND, "us")

        def moment(second: int, **rows: list[dict[str, object]]) -> None:
            for stream in "abc":
                # A row that joins nothing tells of every stream that it has come this far.
                idle = {"a": {"n": -1, "x": -1, "y": -1}, "b": {"n": -1, "x": -2}, "c": {"y": -3}}[stream]
                session.push(stream, [{**row, "ts": at(second)} for row in [*rows.get(stream, []), idle]])
            session.step()

        moment(0, b=[{"n": n, "x": 1} for n in (1, 2, 3)])
        moment(1, a=[{"n": 1, "x": 1, "y": 100}])
        moment(2, b=[{"n": 4, "x": 1}])
        moment(3, a=[{"n": 2, "x": 1, "y": 100}])
        moment(4)
        held = session.stats()
        assert held["partials_produced"] == 0
        assert held["suspensions"] >= 2 and held["suspended_peak"] >= 2
        moment(4, c=[{"y": 100}])
        moment(5)
        session.run(once=True)
        stats = session.stats()
        assert stats["partials_produced"] == stats["resumptions"] == 8
        made = session.queries["q"].table()
        assert sorted(zip(made["a"].to_pylist(), made["b"].to_pylist(), strict=True)) == [
            (a, b) for a in (1, 2) for b in (1, 2, 3, 4)
        ]


def test_figure_five() -> None:
    """((AB)(CD))E: E has partners of b1 and d1 only, so a1 and c1 are suspended in the lowest joins until e1 comes."""
    text = "e9(a9 b1 c9 d1) b1(a1 c1 d1 e1) c1(a1 b1 d1 e1) d1(a1 b1 c1 e1) a1(b1 c1 d1 e1) e1(a1 b1 c1 d1)"
    case = history(text, "(((a b) (c d)) e)")
    for mode, control in EVERY:
        outcome = run_embedded(under(case, jit=mode, jit_control=control))
        assert not differences(case, outcome)
        assert [row["e"] for row in outcome.results["q"]] == [1]


def test_an_empty_opposite_side_suspends_the_whole_producer() -> None:
    case = history("a1(b1 c1) b1(a1 c1) a2(b1 c1) b2(a1 c1) c1(a1 b1)", "((a b) c)")
    with Session() as session:
        for statement in under(case, jit="exact").statements():
            session.execute(statement)
        for epoch in case.epochs()[:4]:
            for stream, rows in epoch.items():
                session.push(stream, case.arrow_rows(stream, rows))
            session.step()
        assert session.stats()["partials_produced"] == 0
        session.push("c", case.arrow_rows("c", case.epochs()[4]["c"]))
        session.run(once=True)
        assert session.stats()["results"]["q"] == 4


def test_auto_stops_listening_where_everything_is_wanted_and_starts_again() -> None:
    """Phase one: every a has a c. Phase two: none has. Phase three: as one. Answers stay right, the edge changes its
    mind."""
    states, results = [], {}
    for mode in ("off", "auto"):
        with Session() as session:
            session.set("plan", "((a b) c)")
            session.set("jit", mode)
            for stream in "abc":
                session.execute(
                    f"CREATE STREAM {stream} (k BIGINT, y BIGINT, ts TIMESTAMP) WITH (time = 'ts', format = 'memory')"
                )
            session.execute(
                "CREATE QUERY q AS SELECT a.ts AS ta, b.ts AS tb, c.ts AS tc "
                "FROM a [RANGE 20 SECONDS], b [RANGE 20 SECONDS], c [RANGE 20 SECONDS] WHERE a.k = b.k AND a.y = c.y"
            )
            rng = np.random.default_rng(7)
            for epoch in range(60):
                scarce = 20 <= epoch < 40
                for stream in "abc":
                    ts = (epoch * 10 * SECOND + np.sort(rng.integers(0, 10 * SECOND, 200))).astype("datetime64[us]")
                    y = rng.integers(0, 100, 200) + (1000 if scarce and stream == "c" else 0)
                    session.push(stream, pa.table({"k": rng.integers(0, 20, 200), "y": y, "ts": ts}))
                session.step()
                if mode == "auto":
                    states.append(next(iter(session.stats()["demand"].values()))["state"])
            session.run(once=True)
            results[mode] = session.queries["q"].table()
    assert results["auto"].num_rows == results["off"].num_rows > 0
    order = [(name, "ascending") for name in ("ta", "tb", "tc")]
    assert results["auto"].sort_by(order).equals(results["off"].sort_by(order))
    assert states[15] == states[59] == "making everything"
    assert "listening" in states[25:45]


def three_streams(session: Session, *queries: str) -> None:
    for stream in "abc":
        session.execute(
            f"CREATE STREAM {stream} (n BIGINT, k BIGINT, y BIGINT, ts TIMESTAMP) WITH (time = 'ts', format = 'memory')"
        )
    for query in queries:
        session.execute(query)


def push(session: Session, stream: str, second: int, rows: list[tuple[int, int, int]]) -> None:
    session.push(stream, [{"n": n, "k": k, "y": y, "ts": np.datetime64(second * SECOND, "us")} for n, k, y in rows])


@pytest.mark.parametrize("route", ["fixed", "lottery"])
def test_a_join_of_many_inputs_admits_rows_that_some_query_can_use(route: str) -> None:
    """Rows of a and b find each other; c has a partner for y = 1 only. The second query looks at other rows of c."""
    window = "[RANGE 60 SECONDS]"
    select = (
        f"SELECT a.n AS a, b.n AS b, c.n AS c FROM a {window}, b {window}, c {window} WHERE a.k = b.k AND a.y = c.y"
    )
    results = {}
    for jit in ("off", "exact"):
        with Session() as session:
            for name, value in {"plan": "mjoin", "route": route, "jit": jit, "share": "on"}.items():
                session.set(name, value)
            three_streams(
                session,
                f"CREATE QUERY q AS {select} AND c.n < 5",
                f"CREATE QUERY p AS {select.replace('60 S', '30 S')} AND c.n >= 5",
            )
            push(session, "c", 0, [(1, 0, 1), (7, 0, 2)])
            push(session, "b", 1, [(n, 1, 0) for n in range(10)])
            push(session, "a", 2, [(0, 1, 1), (1, 1, 2), (2, 1, 3), (3, 1, 4)])
            session.run(once=True)
            stats = session.stats()
            tables = [session.queries[q].table() for q in "qp"]
            results[jit] = [sorted(zip(*(table[x].to_pylist() for x in "abc"), strict=True)) for table in tables]
            if jit == "exact":
                assert [len(rows) for rows in results[jit]] == [10, 10]
                # Two of the four rows of a have no partner in c; each would have given ten partial results.
                assert (stats["suspensions"], stats["partials_produced"]) == (2, 20)
                assert next(iter(stats["demand"].values()))["checks"] > 0
    assert results["exact"] == results["off"]


def test_what_a_static_table_refuses_is_gone_for_good(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"y": [1]}), tmp_path / "t.parquet")
    with Session() as session:
        session.execute(f"CREATE TABLE t (y BIGINT) WITH (path = '{tmp_path}/t.parquet')")
        window = "[RANGE 60 SECONDS]"
        three_streams(
            session,
            "CREATE QUERY q WITH (plan = '((a b) t)', jit = 'exact') AS "
            f"SELECT a.n AS a, b.n AS b FROM a {window}, b {window}, t WHERE a.k = b.k AND a.y = t.y",
        )
        push(session, "a", 0, [(0, 1, 1), (1, 1, 2), (2, 1, 3)])
        push(session, "b", 1, [(n, 1, 0) for n in range(10)])
        push(session, "a", 2, [(3, 1, 2)])
        session.run(once=True)
        stats = session.stats()
    assert stats["results"]["q"] == stats["partials_produced"] == 10
    assert (stats["suspensions"], stats["resumptions"]) == (3, 0)


def test_options_of_one_query_and_what_each_edge_did() -> None:
    window = "[RANGE 60 SECONDS]"
    select = f"SELECT a.n AS a FROM a {window}, b {window}, c {window} WHERE a.k = b.k AND a.y = c.y"
    with Session() as session:
        session.set("plan", "((a b) c)")
        three_streams(
            session,
            f"CREATE QUERY held WITH (jit = 'exact', jit_control = 'chain') AS {select}",
            f"CREATE QUERY made WITH (jit = 'off') AS {select}",
            f"CREATE QUERY plain AS {select}",
        )
        session.execute("EXPLAIN ANALYZE held")
        for second in range(0, 12, 3):
            push(session, "a", second, [(second, 1, second)])
            push(session, "b", second + 1, [(n, 1, 0) for n in range(10)])
            push(session, "c", second + 2, [(0, 0, second - 3)])
            session.step()
        session.run(once=True)
        edges = list(session.stats()["demand"].values())
        shown = [line for line in session.analysis("held").splitlines() if line.startswith("demand")]
        assert (
            session.stats()["results"]["held"]
            == session.stats()["results"]["made"]
            == session.stats()["results"]["plain"]
            > 0
        )
    assert [(edge["decides"], edge["state"]) for edge in edges] == [(False, "listening"), (True, "making everything")]
    assert (
        edges[0]["resumptions"] > 0
        and edges[0]["listens_to"] == ["r2"]
        and edges[0]["partials_avoided"]["estimate"] >= 0
    )
    assert len(shown) == 1 and shown[0].startswith("demand a⋈b: listening to c, ")
    assert (
        f"{edges[0]['resumptions']} combinations resumed" in shown[0]
        and f"{edges[0]['suspensions']} rows suspended" in shown[0]
    )
