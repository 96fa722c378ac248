"""What a match is, what ends a trace and what breaks a rule: each sentence of the semantics with a case worked by
hand."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from eddyline import Session
from eddyline.errors import PlanProblem, UserError

STREAM = "CREATE STREAM s (k BIGINT, j BIGINT, type STRING, ts TIMESTAMP) WITH (time = 'ts');"
#: Types with their seconds.
Trace = str


def rows(text: Trace, k: int | None = 1) -> list[dict[str, object]]:
    """`A0 B5 -7`: an A at second 0, a B at 5, at 7 an event without a type; j is the place."""
    events = [(word[0], int(word[1:])) for word in text.split()]
    return [
        {"k": k, "j": j, "type": None if t == "-" else t, "ts": datetime.fromtimestamp(at, UTC).replace(tzinfo=None)}
        for j, (t, at) in enumerate(events)
    ]


def answer(
    event: str, trace: Trace, rules: str = "", mode: str = "prune", k: int | None = 1, final: bool | None = None
) -> tuple[list[list[int]], list[str]]:
    """The places that each match binds, and the reasons of dead letters; one epoch per row."""
    with Session() as session:
        session.execute(STREAM)
        if rules:
            session.execute(f"CREATE CONSTRAINTS c ON s TYPE type PARTITION BY k ({rules});")
        session.execute(f"CREATE QUERY q WITH (constraints = '{mode}') AS EVENT {event};")
        for row in rows(trace, k):
            session.push("s", [row])
            session.step_pending()
        session.run(final=final)
        found = [list(row.values())[:-1] for row in session.queries["q"].table().to_pylist()]
        return found, [row["_reason"] for row in session.dead_letters("s").to_pylist()]


def book(expression: str, clauses: str, *names: str) -> str:
    return f"{expression} FROM s TYPE type PARTITION BY k {clauses} RETURN {', '.join(f'{n}.j AS {n}' for n in names)}"


A_THEN_B = book("SEQ(A, B)", "", "A", "B")


@pytest.mark.parametrize(
    ("expression", "trace", "expected"),
    [
        # Of several with the smallest time the oldest last event, then the oldest events in the order written.
        ("SEQ(A, B)", "A0 A1 B2 B2", [[0, 2]]),
        ("AND(A, B)", "B0 A1 A1 B1", [[1, 0]]),
        ("AND(B, A)", "A0 A0 B0", [[0, 2]]),
    ],
)
def test_first_match_takes_the_oldest_of_equal_times(expression: str, trace: Trace, expected: list[list[int]]) -> None:
    assert answer(book(expression, "FIRST MATCH", "A", "B"), trace)[0] == expected


@pytest.mark.parametrize(
    ("trace", "matches"),
    [
        ("A0 B5", [[0, 1]]),
        ("A0 B6", []),
        # What came in between keeps the trace open: a type that no rule and no leaf names, no type at all, a violation.
        ("A0 X4 B8", [[0, 2]]),
        ("A0 -4 B8", [[0, 2]]),
        ("S0 A1 Q4 B8", [[1, 3]]),
    ],
)
def test_an_event_at_the_edge_of_the_silence_belongs_to_the_trace(trace: Trace, matches: list[list[int]]) -> None:
    assert answer(A_THEN_B, trace, "PRIOR(Q, S), END AFTER 5 SECONDS")[0] == matches


def test_begin_is_a_guard_and_no_check() -> None:
    rules = "REQUIRE(Z, X), PRIOR(X, A), BEGIN(R)"
    assert answer(A_THEN_B, "A0 Z1 B2", rules) == ([[0, 2]], [])
    assert answer(A_THEN_B, "Y0 A1 Z2 B3", rules) == ([[1, 3]], [])
    assert answer(A_THEN_B, "R0 A1 Z2 B3", rules)[1] == ["violation: PRIOR(X, A), trace 1"]


def test_an_end_counts_in_its_trace_and_ends_it_whatever_it_breaks() -> None:
    ended = book("SEQ(A, E)", "", "A", "E")
    assert answer(ended, "A0 E1 E2", "END(E)")[0] == [[0, 1]]
    found, letters = answer(A_THEN_B, "A0 E1 B2", "REQUIRE(E, X), END(E)")
    assert found == [] and letters == ["violation: REQUIRE(E, X), trace 1"]
    assert answer(A_THEN_B, "A0 E1 B2", "REQUIRE(E, X), END(E)", mode="off")[0] == []


def test_a_not_at_the_end_waits_for_within_whatever_ends_the_trace() -> None:
    waits = book("SEQ(A, NOT(B))", "WITHIN 5 SECONDS", "A")
    assert answer(waits, "A0 E1 B2 X9", "END(E)")[0] == [[0]]
    assert answer(waits, "A0 B5 X9")[0] == []
    assert answer(waits, "A0 B6")[0] == [[0]]
    # At the end of a run that is not final: only if the newest row is as late as the match.
    assert answer(waits, "A0 X5", final=False)[0] == [[0]]
    assert answer(waits, "A0 X4", final=False)[0] == []
    assert answer(waits, "A0 X4")[0] == [[0]]


def test_nots_side_by_side_each_have_the_gap() -> None:
    gap = book("SEQ(A, NOT(B), NOT(C), D)", "", "A", "D")
    assert answer(gap, "A0 D1")[0] == [[0, 1]]
    assert answer(gap, "A0 C1 D2")[0] == answer(gap, "A0 B1 D2")[0] == []
    last = book("SEQ(A, NOT(B), NOT(C))", "WITHIN 2 SECONDS", "A")
    assert answer(last, "A0 X1 A3 C4 A9 B9 A20 X22")[0] == [[0], [6]]


def test_a_branch_of_an_and_ends_the_pattern_and_one_of_an_or_itself() -> None:
    rules = "PRIOR(B, Z), END(E)"
    both, one = "AND(SEQ(A, B), C)", "OR(SEQ(A, B), SEQ(A, C))"
    for expression, pruned, matches in ((both, 1, 0), (one, 1, 1)):
        with Session() as session:
            session.execute(f"{STREAM} CREATE CONSTRAINTS c ON s TYPE type PARTITION BY k ({rules});")
            handle = session.query("q", f"EVENT {expression} FROM s TYPE type PARTITION BY k")
            session.push("s", rows("A0 Z1 C2"))
            session.run(once=True)
            (figures,) = session.stats()["patterns"].values()
            assert (figures["pruned"], len(handle.table())) == (pruned, matches), expression


def test_equal_maps_through_two_branches_are_one_match() -> None:
    assert answer(book("OR(AND(A, B), SEQ(A, B))", "", "A", "B"), "A0 B1")[0] == [[0, 1]]


def test_a_condition_is_void_where_a_name_is_not_bound() -> None:
    assert answer(book("OR(SEQ(A, B), C)", "WHERE A.j > 5", "A", "B", "C"), "A0 B1 C2")[0] == [[None, None, 2]]


def test_events_without_a_trace_or_a_type_are_in_no_pattern() -> None:
    assert answer(A_THEN_B, "A0 B1", k=None)[0] == []
    assert answer(A_THEN_B, "A0 -1 B2")[0] == [[0, 2]]


def test_failing_conditions_of_a_new_pattern_know_the_trace_before_it() -> None:
    with Session() as session:
        session.execute(f"{STREAM} CREATE CONSTRAINTS c ON s TYPE type PARTITION BY k (EXCLUSIVE(B, Z), END(E));")
        first, *rest = rows("Z0 A1 C2")
        session.push("s", [first])
        session.step_pending()
        handle = session.query("q", "EVENT SEQ(A, OR(B, C)) FROM s TYPE type PARTITION BY k")
        session.push("s", rest)
        session.run(once=True)
        (figures,) = session.stats()["patterns"].values()
        # The disjunct with B opens no run: Z has excluded it.
        assert len(handle.table()) == 1 and figures["peak_events_held"] == 1 and figures["runs"] == 1


def test_declare_names_mean_what_their_rules_mean() -> None:
    for declared, rule in (
        ("NOT_COEXISTENCE(A, B)", "EXCLUSIVE(A, B)"),
        ("NOT_SUCCESSION(A, B)", "PRIOR(B, A)"),
        ("AT_MOST_ONE(A)", "ONCE(A)"),
        ("RESPONDED_EXISTENCE(A, X), END(B)", "REQUIRE(A, X), END(B)"),
    ):
        event = book("OR(A, B, C)", "", "A", "B")
        found = [answer(event, "A0 B1 A2 C3 B4", given)[1] for given in (declared, rule)]
        assert found[0] and len(found[0]) == len(found[1]), declared


def test_explain_shows_disjuncts_failing_conditions_and_what_bounds_the_state() -> None:
    with Session() as session:
        rules = "PRIOR(B, Z), EXCLUSIVE(A, Y), REQUIRE(C, K), PRIOR(K, J), END(E)"
        session.execute(f"{STREAM} CREATE CONSTRAINTS c ON s TYPE type PARTITION BY k ({rules});")
        session.execute("CREATE QUERY q AS EVENT OR(SEQ(A, B), C) FROM s TYPE type PARTITION BY k WITHIN 2 HOURS;")
        text = session.explain("q")
    for line in (
        "disjunct 1: {A, B} with A < B",
        "over once seen: Y",
        "at Z no more B",
        "disjunct 2: {C}",
        "over at J without K (whole traces)",
        "state: bounded by WITHIN 2 HOURS, END(E)",
    ):
        assert line in text, text


def test_a_pattern_that_reads_nothing_keeps_places_for_one_that_comes() -> None:
    with Session() as session:
        session.execute(STREAM)
        none = session.query("q", "EVENT SEQ(A, B) FROM s TYPE type RETURN 1 AS one")
        *first, third, fourth, fifth = rows("A0 X1 A2 C3 B4")
        session.push("s", first)
        session.step_pending()
        more = session.query("r", "EVENT SEQ(A, C) FROM s TYPE type RETURN A.j AS a, C.j AS c")
        for row in (third, fourth, fifth):
            session.push("s", [row])
            session.step_pending()
        session.run(once=True)
        assert [list(row.values())[:-1] for row in more.table().to_pylist()] == [[2, 3]]
        assert len(none.table()) == 2


# -- constraints


@pytest.mark.parametrize(
    ("rules", "trace", "letters"),
    [
        ("PRIOR(A, B)", "B0 A1", ["PRIOR(A, B)"]),
        ("ONCE(A)", "A0 A1", ["ONCE(A)"]),
        ("EXCLUSIVE(A, X), REQUIRE(B, X)", "A0 B1", ["EXCLUSIVE(A, X)"]),
        ("IF A AND C THEN NOT B", "A0 C1 B2", ["IF A AND C THEN NOT B"]),
        ("REQUIRE(A, X), PRIOR(X, Y), PRIOR(Y, A)", "A0 Y1", ["PRIOR(Y, A)"]),
        ("REQUIRE(B, X), PRIOR(X, A)", "A0 B1", ["PRIOR(X, A)"]),
        ("REQUIRE(A, X), END(E)", "A0 E1", ["REQUIRE(A, X)"]),
        ("IF A AND B THEN X, END(E)", "A0 E1 A2 B3 E4", ["IF A AND B THEN X"]),
        # The first of two rules that it breaks, once.
        ("PRIOR(A, B), EXCLUSIVE(A, B), ONCE(B)", "B0 A1", ["PRIOR(A, B)"]),
        # What silence has ended lacks nothing.
        ("REQUIRE(A, X), END AFTER 5 SECONDS", "A0 B9 B20", []),
    ],
)
def test_what_breaks_a_rule(rules: str, trace: Trace, letters: list[str]) -> None:
    found = answer(book("OR(A, B, C, Y)", "", "A"), trace, rules)[1]
    assert found == [f"violation: {rule}, trace 1" for rule in letters]


def test_a_cycle_of_prior_through_required_types_is_a_violation() -> None:
    found = answer(book("OR(A, B)", "", "A"), "A0 B1", "REQUIRE(A, X), REQUIRE(B, Y), PRIOR(X, Y), PRIOR(Y, X)")[1]
    assert found == ["violation: PRIOR(X, Y) and PRIOR(Y, X), trace 1"]


def test_a_violation_is_one_dead_letter_that_selects_and_other_books_see() -> None:
    with Session() as session:
        session.execute(f"{STREAM} CREATE CONSTRAINTS c ON s TYPE type PARTITION BY k (PRIOR(A, B), ONCE(B));")
        mine = [
            session.query(f"q{n}", f"EVENT OR(A, {t}) FROM s TYPE type PARTITION BY k WITHIN 1 DAY")
            for n, t in enumerate("CD")
        ]
        other = session.query("other", "EVENT A FROM s TYPE type WITHIN 1 DAY")
        chosen = session.query("chosen", "SELECT j FROM s WHERE type = 'A'")
        session.push("s", rows("B0 A1"))
        session.run(once=True)
        assert len(session.dead_letters("s")) == 1
        assert [len(handle.table()) for handle in (*mine, other, chosen)] == [0, 0, 1, 1]


def test_constraints_of_one_book_add_up() -> None:
    one, two = "EXCLUSIVE(A, X)", "REQUIRE(B, X)"
    with Session() as session:
        session.execute(f"{STREAM} CREATE CONSTRAINTS c ON s TYPE type PARTITION BY k ({one});")
        session.execute(f"CREATE CONSTRAINTS other ON s TYPE type ({two});")
        session.execute("CREATE QUERY q AS EVENT SEQ(A, B) FROM s TYPE type PARTITION BY k WITHIN 1 DAY;")
        with pytest.raises(PlanProblem, match="can never match") as problem:
            session.execute(f"CREATE CONSTRAINTS d ON s TYPE type PARTITION BY k ({two});")
        assert one in str(problem.value) and two in str(problem.value)
        session.execute("CREATE CONSTRAINTS e ON s TYPE type PARTITION BY k (ONCE(A));")
        session.push("s", rows("A0 A1 X2"))
        session.run(once=True)
        assert [row["_reason"].split(",")[0] for row in session.dead_letters("s").to_pylist()] == [
            "violation: ONCE(A)",
            "violation: EXCLUSIVE(A",
        ]


def test_constraints_stay_as_they_are_while_a_job_runs() -> None:
    rule = "CREATE CONSTRAINTS {} ON s TYPE type PARTITION BY k (ONCE(A));"
    with Session() as session:
        session.execute(STREAM + rule.format("c"))
        session.query("q", "EVENT SEQ(A, B) FROM s TYPE type PARTITION BY k WITHIN 1 DAY")
        session.push("s", rows("A0"))
        session.step_pending()
        with pytest.raises(UserError, match="constraints cannot be added to a running job"):
            session.execute(rule.format("d"))
        with pytest.raises(UserError, match="constraints cannot be dropped from a running job"):
            session.execute("DROP CONSTRAINTS c")
        session.push("s", rows("A1 B2"))
        session.run(once=True)
        assert len(session.dead_letters("s")) == 1 and len(session.queries["q"].table()) == 1


@pytest.mark.parametrize("mode", ["prune", "check", "off"])
def test_traces_are_cut_under_every_setting(mode: str) -> None:
    assert answer(A_THEN_B, "A0 E1 B2", "END(E), ONCE(B)", mode=mode)[0] == []
    assert answer(A_THEN_B, "A0 B7", "END AFTER 5 SECONDS, ONCE(B)", mode=mode)[0] == []
    assert answer(A_THEN_B, "A0 B1 B2", "END(E), ONCE(B)", mode=mode)[0] == (
        [[0, 1], [0, 2]] if mode == "off" else [[0, 1]]
    )


def test_without_checks_no_event_is_a_violation() -> None:
    with Session() as session:
        session.execute(
            f"SET constraints = 'off'; {STREAM} CREATE CONSTRAINTS c ON s TYPE type PARTITION BY k (ONCE(A), END(E));"
        )
        handle = session.query("q", A_THEN_B.join(["EVENT ", ""]))
        session.push("s", rows("A0 A1 B2 E3 B4"))
        session.run(once=True)
        assert len(handle.table()) == 2 and len(session.dead_letters("s")) == 0


def test_a_not_takes_no_part_in_what_can_match() -> None:
    assert answer(book("SEQ(A, NOT(X), B)", "", "A", "B"), "A0 B1", "EXCLUSIVE(A, X)")[0] == [[0, 1]]


# -- what comes out, what is held


def test_without_return_partition_columns_come_first_then_those_of_every_name() -> None:
    with Session() as session:
        session.execute(STREAM)
        handle = session.query("q", "EVENT OR(SEQ(A, B b), 'x y' c) FROM s TYPE type PARTITION BY k WITHIN 1 DAY")
        session.push("s", rows("A0 B1"))
        session.run(once=True)
        names = [f"{name}_{column}" for name in ("A", "b", "c") for column in ("k", "j", "type", "ts")]
        table = handle.table()
        assert table.column_names == ["k", *names, "_ts"]
        assert table.to_pylist()[0]["c_j"] is None


def test_types_are_words_texts_and_numbers_as_they_are_written() -> None:
    assert answer(book("SEQ('a' x, b)", "", "x", "b"), "A0 a1 B2 b3")[0] == [[1, 3]]
    with Session() as session:
        session.execute("CREATE STREAM n (type INT, ts TIMESTAMP) WITH (time = 'ts');")
        handle = session.query(
            "q", "EVENT SEQ(7 x, -7 y) FROM n TYPE type WITHIN 1 DAY RETURN x.type AS x, y.type AS y"
        )
        session.push("n", [{"type": t, "ts": datetime(2024, 1, 1, 0, 0, at)} for at, t in enumerate((-7, 7, -7))])
        session.run(once=True)
        assert [list(row.values())[:-1] for row in handle.table().to_pylist()] == [[7, -7]]


def test_the_last_event_of_a_match_lies_at_most_within_after_the_first() -> None:
    assert answer(book("AND(A, B)", "WITHIN 5 SECONDS", "A", "B"), "B0 A5 A6")[0] == [[1, 0]]


def held(event: str, trace: Trace, rules: str, mode: str = "prune") -> list[int]:
    """Events held after each event of a trace."""
    with Session() as session:
        session.execute(f"{STREAM} CREATE CONSTRAINTS c ON s TYPE type PARTITION BY k ({rules});")
        session.execute(f"CREATE QUERY q WITH (constraints = '{mode}') AS EVENT {event};")
        found = []
        # A row counts when the next one shows that no other comes before it.
        for row in rows(f"{trace} X99"):
            session.push("s", [row])
            session.step_pending()
            (figures,) = session.stats()["patterns"].values()
            found.append(figures["events_held"])
        return found[1:]


def test_what_only_a_branch_that_is_over_needs_is_let_go() -> None:
    event = book("SEQ(OR(SEQ(A, B), SEQ(C, D)), F)", "", "A", "C")
    rules = "PRIOR(B, Y), EXCLUSIVE(D, Z), END(E)"
    # Y ends the branch of A and B: A goes, a later A is not stored. Z ends the other one.
    assert held(event, "A0 C1 Y2 A3 D4 X5", rules) == [1, 2, 1, 1, 2, 2]
    assert held(event, "A0 C1 Z2 C3 Y4 X5", rules) == [1, 2, 1, 1, 0, 0]
    assert held(event, "A0 C1 Y2 A3 D4 X5", rules, mode="check") == [1, 2, 2, 3, 4, 4]
    # An event that two branches hold stays for the other one.
    shared = book("OR(SEQ(A, B), SEQ(A, D))", "", "A")
    assert held(shared, "A0 Y1 Z2", rules) == [1, 1, 0]


def test_a_first_match_ends_the_search_within_a_slice() -> None:
    many = 300
    for expression, column in (("SEQ(A, B)", "B.j"), ("OR(SEQ(A, B), SEQ(A, C))", "B.j")):
        with Session() as session:
            session.execute(f"{STREAM} CREATE CONSTRAINTS c ON s TYPE type PARTITION BY k (END(E));")
            handle = session.query(
                "q", f"EVENT {expression} FROM s TYPE type PARTITION BY k FIRST MATCH RETURN A.j AS a, {column} AS b"
            )
            session.push("s", rows(" ".join(["A0"] * many + ["B1", "C1"] * many + ["A2"])))
            session.run(once=True)
            (figures,) = session.stats()["patterns"].values()
            assert [list(row.values())[:-1] for row in handle.table().to_pylist()] == [[0, many]]
            # One look per event and leaf, and one search for the first B: the others are not searched for.
            assert figures["probes"] < 6 * many and figures["events_held"] == 0
