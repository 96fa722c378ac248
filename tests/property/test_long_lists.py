"""A long IN list is one node. It answers as the same values in short lists, whose values are a node each."""

from __future__ import annotations

from decimal import Decimal
from random import Random

import pyarrow as pa
import pytest

from eddyline import Session
from eddyline.errors import EddylineError
from eddyline.language.parse import parse_expression, parse_select
from eddyline.language.render import render_expression
from eddyline.language.syntax import Apply, Constant
from eddyline.language.text.dialect import Eddyline
from eddyline.language.text.long_lists import LONG, put_back, shortened
from tests.property.compare import plain_rows

STREAM = """
CREATE STREAM a (b BOOLEAN, i INT, l BIGINT, d DOUBLE, m DECIMAL(12, 2), s STRING, day DATE, ts TIMESTAMP) WITH (time='ts', format='memory')
"""
SECOND = 1_000_000


def values(rng: Random, column: str) -> list[str]:
    """More values than a short list has, in a form that the column is compared with."""
    count = LONG + rng.randrange(50)
    numbers = [rng.randrange(-60, 60) if rng.random() < 0.2 else rng.randrange(-5000, 5000) for _ in range(count)]
    if column in ("s", "day", "ts"):
        texts = {
            "s": lambda n: ("it''s", "", " a,b ", "IN (1, 2)", "é")[n % 5] + str(n % 70),
            "day": lambda n: f"1970-01-{1 + n % 28:02d}",
            "ts": lambda n: f"1970-01-01 00:{abs(n) // 60 % 60:02d}:{abs(n) % 60:02d}",
        }[column]
        return [f"'{texts(n)}'" for n in numbers]
    form = rng.choice(("{}", "{}.0", "{}.5", "{}.25")) if column in ("d", "m") else "{}"
    if column == "l" and rng.random() < 0.5:
        numbers[rng.randrange(count)] = 2**40
    return [form.format(n) for n in numbers]


def both(needle: str, listed: list[str], word: str, rng: Random) -> tuple[str, str]:
    """The condition with a long list, and with short ones."""
    cut = LONG - 1
    parts = [listed[at : at + cut] for at in range(0, len(listed), cut)]
    gap = rng.choice((", ", ",", " ,\n "))
    short = f" {'OR' if word == 'IN' else 'AND'} ".join(f"{needle} {word} ({', '.join(part)})" for part in parts)
    return f"{needle} {word} ({gap.join(listed)})", f"({short})"


def rows(rng: Random) -> pa.Table:
    drawn = [rng.randrange(-70, 70) for _ in range(120)]

    def some(kind: pa.DataType, made: list[object]) -> pa.Array:
        return pa.array([None if rng.random() < 0.1 else value for value in made], kind)

    return pa.table(
        {
            "b": some(pa.bool_(), [n > 0 for n in drawn]),
            "i": some(pa.int32(), drawn),
            "l": some(pa.int64(), [2**40 if n == 7 else n for n in drawn]),
            "d": some(pa.float64(), [n / rng.choice((1, 2, 4)) for n in drawn]),
            "m": some(pa.decimal128(12, 2), [Decimal(n) / 2 for n in drawn]),
            "s": some(pa.string(), [("it's", "", " a,b ", "IN (1, 2)", "é")[n % 5] + str(n % 70) for n in drawn]),
            "day": some(pa.date32(), [abs(n) for n in drawn]),
            "ts": pa.array([SECOND * at for at in range(120)], pa.timestamp("us")),
        }
    )


@pytest.mark.property
@pytest.mark.parametrize("column", ["b", "i", "l", "d", "m", "s", "day", "ts"])
@pytest.mark.parametrize("word", ["IN", "NOT IN"])
def test_a_long_list_answers_as_short_ones(column: str, word: str) -> None:
    rng = Random(f"{column} {word}")
    for _ in range(3):
        long, short = both(column, values(rng, column), word, rng)
        with Session() as session:
            session.execute(STREAM)
            for name, condition in (("long", long), ("short", short)):
                session.execute(f"CREATE QUERY {name}_filter AS SELECT * FROM a WHERE {condition}")
                session.execute(f"CREATE QUERY {name}_value AS SELECT {condition} AS found, ts FROM a")
                session.execute(
                    f"CREATE QUERY {name}_of AS SELECT COUNT(*) AS n FROM a [RANGE 9 SECONDS] WHERE {condition} OR ts IS NULL"
                )
            session.push("a", rows(rng))
            session.run(once=True)
            found = {name: plain_rows(query.results()) for name, query in session.queries.items()}
        for kind in ("filter", "value", "of"):
            assert found[f"long_{kind}"] == found[f"short_{kind}"], (column, word, kind)
        assert found["long_value"]


def test_a_request_takes_a_long_list() -> None:
    rng = Random(5)
    with Session() as session:
        session.execute(STREAM)
        session.execute("CREATE TEMPLATE t AS SELECT i, m, s, COUNT(*) AS n FROM a [RANGE 60 MINUTES] GROUP BY i, m, s")
        session.push("a", rows(rng))
        session.run(once=True)
        for column in ("i", "m", "s"):
            listed = [text.replace(".25", ".50") for text in values(rng, column)]
            long = session.request(f"REQUEST {column}, n FROM t WHERE {column} IN ({', '.join(listed)})")
            short = [
                session.request(f"REQUEST {column}, n FROM t WHERE {column} IN ({', '.join(part)})")
                for part in (listed[:500], listed[500:])
            ]
            wanted = {tuple(row.items()) for table in short for row in table.to_pylist()}
            assert {tuple(row.items()) for row in long.to_pylist()} == wanted and wanted


@pytest.mark.parametrize(
    "listed", [range(LONG), [-n for n in range(LONG)], [f"'{n}'" for n in range(LONG)], [f"{n}.5" for n in range(LONG)]]
)
def test_a_list_is_written_as_it_was_read(listed: list[object]) -> None:
    text = f"(x IN ({', '.join(map(str, listed))})) AND (y = 1)"
    node = parse_expression(text)
    assert isinstance(node, Apply) and isinstance(node.args[0], Apply)
    values = node.args[0].args[1]
    assert isinstance(values, Constant) and isinstance(values.value, tuple) and len(values.value) == LONG
    assert parse_expression(render_expression(node)) == node


def test_what_looks_like_a_list_within_a_text_or_a_comment_is_none() -> None:
    listed = f"IN ({', '.join(map(str, range(LONG)))})"
    assert parse_expression(f"x = 'is {listed}'") == Apply(
        "=", (parse_expression("x"), Constant("string", f"is {listed}"))
    )
    assert parse_expression(f"x /* {listed} */ = 1 -- {listed}") == parse_expression("x = 1")
    assert parse_expression(f"x /* /* {listed} */ {listed} */ = 1") == parse_expression("x = 1")
    mixed = parse_expression(f"x = 'is {listed}' OR x {listed}")
    assert isinstance(mixed, Apply) and isinstance(mixed.args[1], Apply) and len(mixed.args[1].args) == LONG + 1


def test_a_list_of_several_kinds_is_read_value_by_value() -> None:
    listed = ", ".join(map(str, range(LONG)))
    for more in ("NULL", "'a'", "1.5", "1 + 1", "- 1", "1e3", "/* one */ 1"):
        assert shortened(f"x IN ({listed}, {more})")[1] == {}
        node = parse_expression(f"x IN ({listed}, {more})")
        assert isinstance(node, Apply) and len(node.args) == LONG + 2


def test_what_is_left_out_is_not_looked_at_letter_by_letter() -> None:
    listed = f"IN ({', '.join(map(str, range(LONG)))})"
    text = f"x {listed} AND y {listed} OR z"
    short, lists, cuts = shortened(text)
    assert len(short) < 40 and len(lists) == len(cuts) == 2
    tokens = Eddyline().tokenize(short)
    put_back(tokens, cuts)
    assert [text[t.start : t.end + 1] for t in tokens] == [
        "x",
        "IN",
        "(",
        "0",
        ")",
        "AND",
        "y",
        "IN",
        "(",
        "0",
        ")",
        "OR",
        "z",
    ]


def test_places_after_a_list_stay_where_they_are() -> None:
    listed = ",\n".join(map(str, range(LONG)))
    with pytest.raises(EddylineError) as problem:
        parse_select(f"SELECT x FROM a WHERE x IN ({listed}) AND\n  y = ")
    assert problem.value.position is not None and problem.value.position.line == LONG + 1
    with Session() as session, pytest.raises(EddylineError, match="does not fit into BIGINT"):
        session.execute(STREAM)
        session.execute(f"CREATE QUERY q AS SELECT i FROM a WHERE i IN ({listed}, {2**63})")
