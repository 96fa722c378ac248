"""Names: found, taken, let go."""

from __future__ import annotations

import pytest

from eddyline.errors import BindingProblem
from eddyline.language import Catalog, DeclaredSink, bind_query, parse_select
from eddyline.model.datatypes import TIMESTAMP
from eddyline.model.schema import Column, Schema, Stream, Table
from eddyline.settings import Settings

SCHEMA = Schema((Column("ts", TIMESTAMP),))


def stream(name: str, catalog: Catalog) -> Stream:
    return Stream(name, SCHEMA, "ts", position=catalog.next_position)


def test_case_does_not_matter_and_spelling_is_kept() -> None:
    catalog = Catalog()
    catalog.add(stream("Bids", catalog))
    assert catalog.relation("BIDS").name == "Bids"
    assert list(catalog.streams) == ["Bids"]
    with pytest.raises(BindingProblem, match="already a stream Bids"):
        catalog.add(Table("bids", SCHEMA))


def test_streams_and_queries_do_not_share_names() -> None:
    catalog = Catalog()
    catalog.add(stream("s", catalog))
    catalog.add(bind_query("s", parse_select("SELECT ts FROM s"), Settings(), catalog))
    catalog.add(DeclaredSink("s", "s"))
    assert (catalog.query("S").name, catalog.sinks["s"].query) == ("s", "s")


def test_positions_are_not_given_twice() -> None:
    catalog = Catalog()
    for name in ("a", "b"):
        catalog.add(stream(name, catalog))
    catalog.drop("stream", "b")
    catalog.add(stream("c", catalog))
    assert {n: s.position for n, s in catalog.streams.items()} == {"a": 0, "c": 2}


def test_a_query_takes_its_sinks_along() -> None:
    catalog = Catalog()
    catalog.add(stream("s", catalog))
    for name in ("q", "r"):
        catalog.add(bind_query(name, parse_select("SELECT ts FROM s"), Settings(), catalog))
    for sink in (DeclaredSink("one", "q"), DeclaredSink("two", "r"), DeclaredSink("all", None)):
        catalog.add(sink)
    assert [s.name for s in catalog.sinks_of("q")] == ["one", "all"]
    assert catalog.drop("query", "Q").name == "q"
    assert list(catalog.sinks) == ["two", "all"]
    catalog.drop("query", "r")
    assert catalog.drop("stream", "s").name == "s"
    assert not catalog.streams and not catalog.queries


@pytest.mark.parametrize("name", ["_x", "a/b", "..", "a b", "", "-x", "a.b"])
def test_names_that_are_no_folders(name: str) -> None:
    with pytest.raises(BindingProblem, match="cannot name a query"):
        Catalog().check_free("query", name)


@pytest.mark.parametrize("name", ["x", "X_1", "höhe", "2024-q1"])
def test_names_that_are(name: str) -> None:
    catalog = Catalog()
    catalog.check_free("stream", name)
    catalog.add(stream(name, catalog))
    assert catalog.relation(name.upper()).name == name
