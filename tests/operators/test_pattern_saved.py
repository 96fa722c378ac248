"""A book that older versions have written goes on."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from eddyline.operators.pattern.book import TraceBook
from eddyline.operators.pattern.saved import _packed, _unpacked, restore_book, saved_book
from tests.operators.test_pattern_cost import FRAUD, book_of, rows_of


def taken(book: TraceBook, table: pa.Table, first: int) -> int:
    ts = np.asarray(table.column("ts").cast(pa.int64()))
    place = np.arange(first, first + len(ts))
    book.take(table, ts, place, place)
    return sum(len(made.table) for made in book.advance(int(ts[-1]) + 1).get("q", ()))


def test_links_without_jumps_and_starts_find_the_same_matches() -> None:
    for pattern in (FRAUD, "SEQ(A a, NOT(X x), B b, C c) FROM s TYPE type WITHIN 60 MILLISECONDS"):
        table = rows_of("T" if pattern == FRAUD else "AABBCX", 300)
        whole, first, second = book_of(pattern), book_of(pattern), book_of(pattern)
        wanted = taken(whole, table, 0)
        matches = taken(first, table.slice(0, 150), 0)
        state, blocks = saved_book(first, "book")
        arrays = _unpacked(blocks["book-arrays"]())
        older = {name: a for name, a in arrays.items() if name not in ("links.jump", "links.depth", "links.start")}
        assert len(older) == len(arrays) - 3
        tables = {name: make() for name, make in blocks.items()} | {"book-arrays": _packed(older)}
        restore_book(second, state, tables.__getitem__)
        assert matches + taken(second, table.slice(150), 150) == wanted > 0
