"""What a match is, what ends a trace and what breaks a rule: each sentence of the semantics with a case worked by hand."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from eddyline import Session

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


def answer(event: str, trace: Trace, rules: str = "", mode: str = "prune", k: int | None = 1) -> tuple[list[list[int]], list[str]]:
    """The places that each match binds, and the reasons of dead letters; one epoch per row."""
    with Session() as session:
        session.execute(STREAM)
        if rules:
            session.execute(f"CREATE CONSTRAINTS c ON s TYPE type PARTITION BY k ({rules});")
        session.execute(f"CREATE QUERY q WITH (constraints = '{mode}') AS EVENT {event};")
        for row in rows(trace, k):
            session.push("s", [row])
            session.step_pending()
        session.run(once=True)
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
    # At the end of the input: only if the newest row is as late as the match.
    assert answer(waits, "A0 X5")[0] == [[0]]
    assert answer(waits, "A0 X4")[0] == []


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
