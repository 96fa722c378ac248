"""Text to syntax tree: places, texts, and that nothing is passed over."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.errors import Position, SyntaxProblem, Unsupported, UserError
from eddyline.language.parse import parse_expression, parse_script, parse_select
from eddyline.language.syntax import Apply, Cast, Constant, CreateQuery, Name, Set
from eddyline.model.datatypes import INT, decimal


def test_statements_in_order_with_their_places() -> None:
    first, second = parse_script("SET seed = 1;\n\n  SET jit = off;")
    assert (first, second) == (Set("seed", 1), Set("jit", "off"))
    assert (first.position, second.position) == (Position(1, 1), Position(3, 3))


def test_an_empty_text_has_no_statements() -> None:
    assert parse_script("") == parse_script(" ;; -- nothing\n;") == []


def test_a_query_keeps_its_select_as_written() -> None:
    (query,) = parse_script("CREATE QUERY q AS\n  SELECT  x -- the column\n  FROM s  ;\n-- after")
    assert isinstance(query, CreateQuery)
    assert query.text == query.select.text == "SELECT  x -- the column\n  FROM s"


def test_places_inside_expressions() -> None:
    node = parse_expression("a.x +\n  lower(y)")
    assert isinstance(node, Apply)
    assert [n.position for n in node.args] == [Position(1, 1), Position(2, 3)]


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("x", Name("x")),
        ('"A b".c', Name("c", "A b")),
        ("-5", Constant("integer", -5)),
        ("- -5", Constant("integer", 5)),
        ("-9223372036854775808", Constant("integer", -(2**63))),
        ("1.0", Constant("double", 1.0)),
        ("'it''s'", Constant("string", "it's")),
        ("DATE '2024-01-01'", Constant("date", "2024-01-01")),
        (
            "CAST('2024-01-01' AS DATE)",
            Cast(Constant("string", "2024-01-01"), parse_expression("CAST(x AS DATE)").type),
        ),  # type: ignore[union-attr]
        ("INTERVAL '5 minutes'", Constant("interval", "5 minutes")),
        ("x::INT", Cast(Name("x"), INT)),
        ("CAST(x AS DECIMAL(5, 1))", Cast(Name("x"), decimal(5, 1))),
        ("COUNT(*)", Apply("count", (), star=True)),
        ("count(DISTINCT x)", Apply("count", (Name("x"),), distinct=True)),
        ("x IS NOT NULL", Apply("is_not_null", (Name("x"),))),
        ("x NOT IN (1)", Apply("not", (Apply("in", (Name("x"), Constant("integer", 1))),))),
        ("EXTRACT(year FROM ts)", Apply("date_part", (Constant("string", "year"), Name("ts")))),
    ],
)
def test_expressions(text: str, node: object) -> None:
    assert parse_expression(text) == node


@pytest.mark.parametrize(
    "word", ["range", "rows", "date", "timestamp", "key", "month", "stream", "query", "sink", "every", "change"]
)
def test_words_that_stay_names(word: str) -> None:
    select = parse_select(f"SELECT {word}, a.{word} AS {word} FROM {word} AS a")
    assert select.items[0].value == Name(word)
    assert select.sources[0].name == word


def test_deep_nesting_is_an_error_and_no_crash() -> None:
    with pytest.raises(SyntaxProblem, match="nested too deeply"):
        parse_expression("(" * 3000 + "1" + ")" * 3000)
    with pytest.raises(SyntaxProblem, match="nested too deeply"):
        parse_expression(" OR ".join(f"x = {i}" for i in range(5000)))


def test_one_select_means_one() -> None:
    with pytest.raises(SyntaxProblem, match="expected one SELECT"):
        parse_select("SELECT x FROM s; SELECT x FROM s")
    with pytest.raises(SyntaxProblem, match="expected one SELECT"):
        parse_select("SET seed = 1")
    with pytest.raises(SyntaxProblem, match="expected the end"):
        parse_expression("x y")


@pytest.mark.parametrize("hint", ["/*+ BROADCAST(a) */", "/* + */"])
def test_hints_are_comments(hint: str) -> None:
    assert parse_select(f"SELECT {hint} x FROM s") == parse_select("SELECT x FROM s")


FOREIGN = """
x ** 2 | x ^ y | x << 1 | ~x | x -> y | x ->> y | f(x -> x + 1) | [1, 2] | {'a': 1} | (1, 2) | x COLLATE de | x ?? y | x SIMILAR TO 'a'
x RLIKE 'a' | x ~ 'a' | x GLOB 'a' | ARRAY[1] | x BETWEEN SYMMETRIC 1 AND 2 | f(x => 1) | x LIKE ANY ('a') | f.g(x)
count(DISTINCT x ORDER BY y) | first(x) IGNORE NULLS | f(x LIMIT 3) | @x | :x | x'ff' | N'text'
CURRENT_DATE | x OVERLAPS y | x IS JSON | CAST(x AS INT[]) | CAST(x AS INT FORMAT 'a') | x := 1 | NEXT VALUE FOR s | x XOR y
"""


@pytest.mark.parametrize("text", [t.strip() for line in FOREIGN.strip().split("\n") for t in line.split(" | ")])
def test_what_sqlglot_knows_and_we_do_not(text: str) -> None:
    with pytest.raises((Unsupported, SyntaxProblem)):
        parse_expression(text)


WORDS = (
    "SELECT x , * FROM s [ ROWS 3 ] AS a JOIN ON ( ) = 1 'c' WHERE GROUP BY HAVING EMIT EVERY WITH CREATE QUERY . - ;"
)


@given(st.lists(st.sampled_from(WORDS.split())))
def test_any_row_of_words_is_read_or_refused(words: list[str]) -> None:
    try:
        statements = parse_script(" ".join(words))
    except UserError as problem:
        assert problem.message
    else:
        assert len(statements) <= words.count(";") + 1


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        node = parse_expression(text)
    except UserError as problem:
        assert problem.message
    else:
        assert isinstance(node, Name | Constant | Apply | Cast)
