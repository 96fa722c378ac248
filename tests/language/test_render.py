"""Whatever is rendered parses to what it came from."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from eddyline.language.parse import parse_expression, parse_script
from eddyline.language.render import render, render_expression
from eddyline.language.syntax import Apply, Cast, Constant, FromEntry, Item, Name, Node, Select, Star
from eddyline.language.text.reader import RESERVED
from eddyline.model.datatypes import BIGINT, DATE, DOUBLE, STRING, TIMESTAMP, decimal
from eddyline.model.query import Emit
from eddyline.model.window import UNBOUNDED, Range, Rows

INFIX = "+ - * / // % = <> < <= > >= || and or like ilike is_not_distinct"
_names = st.one_of(
    st.sampled_from(
        ["x", "Price", "ts", "date", "rows", "select", "Order", "a b", 'q"q', "é", "1st", *sorted(RESERVED)]
    ),
    st.text(st.characters(categories=["L", "Nd", "P", "Zs"]), min_size=1, max_size=5).filter(str.strip),
)


@st.composite
def name(draw: st.DrawFn) -> str:
    return draw(_names)


names = name()
constants = st.one_of(
    st.just(Constant("null", None)),
    st.booleans().map(lambda b: Constant("boolean", b)),
    st.integers(-(2**63), 2**63 - 1).map(lambda n: Constant("integer", n)),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda n: Constant("double", n)),
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8).map(lambda s: Constant("string", s)),
    st.sampled_from(
        [
            Constant("timestamp", "2024-01-01 00:00:00"),
            Constant("date", "2024-01-01"),
            Constant("interval", "5 minutes"),
        ]
    ),
)


def branches(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    infix = st.sampled_from(INFIX.split())
    return st.one_of(
        st.builds(lambda f, a, b: Apply(f, (a, b)), infix, inner, inner),
        # A negative number is written as one constant, and NOT … IS NULL as IS NOT NULL: those two are never nested so.
        inner.filter(lambda n: not (isinstance(n, Constant) and n.kind in ("integer", "double"))).map(
            lambda n: Apply("neg", (n,))
        ),
        inner.map(
            lambda n: (
                Apply("not", (n,))
                if not (isinstance(n, Apply) and n.function == "is_null")
                else Apply("is_not_null", n.args)
            )
        ),
        inner.map(lambda n: Apply("is_null", (n,))),
        st.lists(inner, min_size=2, max_size=4).map(lambda a: Apply("in", tuple(a))),
        st.lists(inner, min_size=3, max_size=7)
        .filter(lambda a: len(a) % 2 == 1)
        .map(lambda a: Apply("case", tuple(a))),
        st.lists(inner, max_size=3).map(lambda a: Apply("concat", tuple(a))),
        st.builds(Cast, inner, st.sampled_from([BIGINT, DOUBLE, STRING, DATE, TIMESTAMP, decimal(10, 2)])),
        inner.map(lambda n: Apply("count", (n,), distinct=True)),
        st.just(Apply("count", (), star=True)),
    )


columns = st.builds(Name, names, st.none() | names)
nodes = st.recursive(constants | columns, branches, max_leaves=8)
sources = st.builds(
    FromEntry,
    names,
    st.none() | names,
    st.none() | st.just(UNBOUNDED) | st.builds(Rows, st.integers(1, 99)) | st.builds(Range, st.integers(0, 10**12)),
)
joined = st.one_of(
    sources,
    sources.map(lambda s: FromEntry(s.name, s.alias, s.window, "CROSS")),
    st.builds(lambda s, on: FromEntry(s.name, s.alias, s.window, "INNER", on), sources, nodes),
)
emits = st.none() | st.sampled_from([Emit("change"), Emit("close"), Emit("every", 1), Emit("every", 90_000_000)])


@st.composite
def selects(draw: st.DrawFn) -> Select:
    items = draw(st.lists(st.builds(Item, nodes | st.builds(Star, st.none() | names)), min_size=1, max_size=3))
    return Select(
        items=tuple(items),
        sources=(draw(sources), *draw(st.lists(joined, max_size=2))),
        where=draw(st.none() | nodes),
        group_by=tuple(draw(st.lists(nodes, max_size=2))),
        having=draw(st.none() | nodes),
        distinct=draw(st.booleans()),
        emit=draw(emits),
    )


@given(nodes)
def test_expressions_come_back(node: Node) -> None:
    assert parse_expression(render_expression(node)) == node


@given(selects())
def test_selects_come_back(select: Select) -> None:
    assert parse_script(render(select)) == [select]
