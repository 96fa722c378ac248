"""Range kernels against their plain twins."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.kernels.intervals import (
    Boxes,
    Swept,
    Trees,
    build_tree,
    choose_leads,
    collect_pairs,
    confirm_pairs,
    cover_ranges,
    double_keys,
    ordered_rows,
    stab_pairs,
    sweep_pairs,
)
from eddyline.kernels.texts.text import locate_texts, text_prefix
from eddyline.operators.sharing.interval_index import met_stretches
from tests.oracle.kernels_sharing import Range, Term, box_pairs, cover, locate, order_of
from tests.seeds import cases

LEAST, GREATEST = -(2**63), 2**63 - 1
NULL: Range = (GREATEST, LEAST)
KEYS = st.one_of(
    st.integers(-8, 8), st.sampled_from([LEAST, LEAST + 1, GREATEST - 1, GREATEST]), st.integers(LEAST, GREATEST)
)


@settings(max_examples=cases(60), deadline=None)
@given(st.lists(KEYS, max_size=60))
def test_rows_in_the_order_of_their_keys(keys: list[int]) -> None:
    rows, ordered = ordered_rows(np.array(keys, np.int64))
    assert ordered.tolist() == sorted(keys)
    assert sorted(rows.tolist()) == list(range(len(keys)))
    assert [keys[row] for row in rows] == sorted(keys)


def test_rows_in_order_where_all_keys_but_one_share_their_high_bits() -> None:
    keys = np.random.default_rng(1).permutation(5000)
    keys[17] = GREATEST
    rows, ordered = ordered_rows(keys)
    assert ordered.tolist() == sorted(keys.tolist())
    assert keys[rows].tolist() == ordered.tolist()


@settings(max_examples=cases(60), deadline=None)
@given(st.lists(KEYS, max_size=30), st.lists(st.tuples(KEYS, KEYS), max_size=20), st.integers(0, 3), st.booleans())
def test_places_that_ranges_cover(keys: list[int], ranges: list[Range], nulls: int, by_low: bool) -> None:
    low, high = np.array([r[0] for r in ranges], np.int64), np.array([r[1] for r in ranges], np.int64)
    which = np.argsort(low, kind="stable") if by_low else np.arange(low.size)
    start, stop = np.zeros(low.size, np.int64), np.zeros(low.size, np.int64)
    cover_ranges(np.array(sorted(keys), np.int64), low, high, which, len(keys) + nulls, start, stop)
    expected = [cover(keys, *r) if r[0] <= r[1] else (len(keys), len(keys) + nulls) for r in ranges]
    assert list(zip(start.tolist(), stop.tolist(), strict=True)) == expected


@settings(max_examples=cases(60), deadline=None)
@given(
    st.lists(st.tuples(KEYS, KEYS).map(lambda r: (min(r), max(r))), max_size=40),
    st.lists(KEYS, min_size=1, max_size=10),
)
def test_tree_gives_the_ranges_that_contain_a_key(ranges: list[Range], keys: list[int]) -> None:
    ranges = sorted(ranges)
    low, high = np.array([r[0] for r in ranges], np.int64), np.array([r[1] for r in ranges], np.int64)
    tops = np.empty(low.size, np.int64)
    build_tree(high, tops)
    boxes, nulls = np.arange(low.size), (np.zeros(2, np.int64), np.empty(0, np.int64))
    batch = np.array([keys], np.int64)
    found, row = [], 0
    while row < len(keys):
        pairs = np.empty(2 * low.size + 1, np.int64)
        trees = Trees(np.array([0, low.size]), low, high, tops, boxes, *nulls, low.size)
        used, row = stab_pairs(boxes, trees, batch, np.ones(batch.shape, np.bool_), 8, row, pairs)
        found += pairs[:used].tolist()
    expected = [(at, row) for at, r in enumerate(ranges) for row, key in enumerate(keys) if r[0] <= key <= r[1]]
    assert sorted((p >> 8, p & 255) for p in found) == expected


@st.composite
def terms(draw: st.DrawFn) -> Term:
    """Ascending, disjoint ranges of one of three columns, perhaps with null, perhaps many."""
    ends = sorted(draw(st.lists(KEYS, min_size=0, max_size=24, unique=True)))
    ranges = [(a, b - draw(st.integers(0, 1))) for a, b in zip(ends[::2], ends[1::2], strict=False)]
    ranges = [r for r in ranges if r[0] <= r[1]]
    if not ranges or draw(st.booleans()):
        ranges.append(NULL)
    return draw(st.integers(0, 2)), ranges


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[list[Term]], list[list[int | None]]]:
    boxes = draw(st.lists(st.lists(terms(), max_size=3), min_size=1, max_size=6))
    rows = draw(st.integers(1, 12))
    line = st.lists(st.one_of(st.none(), KEYS), min_size=rows, max_size=rows)
    return boxes, [draw(line) for _ in range(3)]


class Arrays:
    """A list of boxes in the form that the kernels read, and a batch beside it."""

    def __init__(self, boxes: list[list[Term]], keys: list[list[int | None]]):
        all_terms = [term for box in boxes for term in box]
        ranges = [r for _, some in all_terms for r in some]
        self.box_term = np.cumsum([0] + [len(box) for box in boxes])
        self.term_box = np.repeat(np.arange(len(boxes)), [len(box) for box in boxes]).astype(np.int64)
        self.term_column = np.array([column for column, _ in all_terms], np.int64)
        self.term_interval = np.cumsum([0] + [len(some) for _, some in all_terms])
        self.low, self.high = np.array([r[0] for r in ranges], np.int64), np.array([r[1] for r in ranges], np.int64)
        self.boxes = Boxes(self.box_term, self.term_column, self.term_interval, self.low, self.high)
        self.keys = np.array([[0 if k is None else k for k in line] for line in keys], np.int64)
        self.valid = np.array([[k is not None for k in line] for line in keys])
        self.label = np.arange(len(boxes))
        self.rows = len(keys[0])
        self.start, self.stop = np.zeros(self.low.size, np.int64), np.zeros(self.low.size, np.int64)
        self.order = np.empty(self.keys.shape, np.int64)
        column_of = np.repeat(self.term_column, np.diff(self.term_interval))
        for column in range(len(keys)):
            present = np.flatnonzero(self.valid[column])
            places, ordered = ordered_rows(self.keys[column, present])
            self.order[column] = np.concatenate((present[places], np.flatnonzero(~self.valid[column])))
            cover_ranges(
                ordered, self.low, self.high, np.flatnonzero(column_of == column), self.rows, self.start, self.stop
            )

    def confirmed(self, pairs: np.ndarray, lead: np.ndarray) -> list[tuple[int, int]]:
        label = 100 + self.label
        inside = confirm_pairs(pairs, label, lead, self.boxes, self.keys, self.valid, 8)
        return [((int(p) >> 8) - 100, int(p) & 255) for p in inside]


@settings(max_examples=cases(80), deadline=None)
@given(tables(), st.integers(0, 30))
def test_pairs_of_a_sorted_batch(table: tuple[list[list[Term]], list[list[int | None]]], room: int) -> None:
    a = Arrays(*table)
    lead, amount = np.empty(a.label.size, np.int64), np.empty(a.label.size, np.int64)
    choose_leads(a.label, a.boxes, a.start, a.stop, a.rows, lead, amount)
    found, box = [], 0
    while box < a.label.size:
        pairs, box = collect_pairs(lead, amount, a.boxes, a.start, a.stop, a.order, 8, box, room)
        found += a.confirmed(pairs, lead)
    assert sorted(found) == box_pairs(*table)


@settings(max_examples=cases(80), deadline=None)
@given(tables(), st.booleans())
def test_pairs_of_boxes_of_one_term_in_one_go(
    table: tuple[list[list[Term]], list[list[int | None]]], by_low: bool
) -> None:
    boxes = [[(0, box[0][1])] for box in table[0] if box] or [[(0, [NULL])]]
    a = Arrays(boxes, table[1])
    owner = np.repeat(a.term_box, np.diff(a.term_interval))
    which = np.argsort(a.low, kind="stable") if by_low else np.arange(a.low.size)
    ordered = a.keys[0, a.order[0]][: a.valid[0].sum()]
    label = np.where(a.label == 1, -1, 100 + a.label)
    for leaps in {False, by_low and len(ordered) == a.rows}:
        reach = np.maximum.accumulate(a.high[which]) if leaps else np.empty(0, np.int64)
        found, at = [], 0
        while at < which.size:
            pairs = np.empty(2 * a.rows, np.int64)
            used, at, _ = sweep_pairs(
                ordered, a.order[0], Swept(a.low, a.high, owner, which, reach), label, 8, at, pairs
            )
            found += pairs[:used].tolist()
        assert sorted(((p >> 8) - 100, p & 255) for p in found) == [
            pair for pair in box_pairs(boxes, table[1]) if pair[0] != 1
        ]


@pytest.mark.parametrize("seed", range(20))
def test_stretches_that_meet_a_range(seed: int) -> None:
    rng = np.random.default_rng(seed)
    keys, size = rng.choice([-(2**63), 2**63 - 1, *range(60)], int(rng.integers(0, 90))), int(rng.integers(1, 20))
    low = np.sort(rng.integers(-5, 60, int(rng.integers(0, 4))))
    high = low + rng.integers(-1, 12, len(low))
    met = met_stretches(keys, size, low, np.maximum.accumulate(high))
    for at, found in enumerate(met.tolist()):
        part = keys[at * size : (at + 1) * size].tolist()
        assert found == any(a <= max(part) and b >= min(part) for a, b in zip(low.tolist(), high.tolist(), strict=True))
    assert len(met) == -(-len(keys) // size)


@settings(max_examples=cases(80), deadline=None)
@given(tables(), st.integers(0, 6))
def test_pairs_of_rows_looked_up_in_trees(table: tuple[list[list[Term]], list[list[int | None]]], tail: int) -> None:
    boxes, keys = table
    a = Arrays(boxes, keys)
    # The first term of each box leads; boxes from `tail` on are in no tree.
    lead = a.box_term[:-1][:tail]
    leading = [t for t in range(a.term_column.size) if a.term_box[t] < tail and t == lead[a.term_box[t]]]
    ranges = [(t, i) for t in leading for i in range(a.term_interval[t], a.term_interval[t + 1])]
    entries = sorted((int(a.term_column[t]), int(a.low[i]), i, int(a.term_box[t])) for t, i in ranges)
    true = [e for e in entries if a.low[e[2]] <= a.high[e[2]]]
    null = [e for e in entries if a.low[e[2]] > a.high[e[2]]]
    high = np.array([a.high[e[2]] for e in true], np.int64)
    tree_from = np.searchsorted([e[0] for e in true], np.arange(4))
    tops = np.empty(len(true), np.int64)
    for first, last in itertools.pairwise(tree_from):
        build_tree(high[first:last], tops[first:last])
    pairs = np.empty(a.label.size * a.rows, np.int64)
    trees = Trees(
        tree_from, np.array([e[1] for e in true], np.int64), high, tops, np.array([e[3] for e in true], np.int64),
        np.searchsorted([e[0] for e in null], np.arange(4)), np.array([e[3] for e in null], np.int64), tail,
    )  # fmt: skip
    used, row = stab_pairs(a.label, trees, a.keys, a.valid, 8, 0, pairs)
    assert row == a.rows
    expected = [pair for pair in box_pairs(boxes, keys) if boxes[pair[0]] or pair[0] >= tail]
    assert sorted(a.confirmed(pairs[:used], lead)) == expected


def test_lead_is_the_term_with_the_fewest_rows_then_the_narrowest() -> None:
    wide, narrow, never = (0, [(0, 100)]), (1, [(0, 10)]), (2, [(50, 60)])
    a = Arrays([[wide, narrow], [wide, never], []], [[5, 6, 200], [5, 6, 200], [1, 2, 3]])
    lead, amount = np.empty(3, np.int64), np.empty(3, np.int64)
    choose_leads(a.label, a.boxes, a.start, a.stop, a.rows, lead, amount)
    assert lead.tolist() == [1, 3, -1]
    assert amount.tolist() == [2, 0, 3]


@settings(max_examples=cases(60), deadline=None)
@given(st.lists(st.floats(allow_nan=True) | st.sampled_from([0.0, -0.0, math.nan, -math.nan]), min_size=1))
def test_double_keys_ascend_as_doubles_do(numbers: list[float]) -> None:
    values = np.array(numbers)
    keys = np.empty(values.size, np.int64)
    double_keys(values, values.view(np.int64), keys)
    assert np.argsort(keys, kind="stable").tolist() == sorted(range(len(numbers)), key=lambda i: order_of(numbers[i]))
    assert [k == keys[0] for k in keys] == [order_of(n) == order_of(numbers[0]) for n in numbers]


@settings(max_examples=cases(60), deadline=None)
@given(st.lists(st.text("ab\0é", max_size=12)), st.lists(st.text("ab\0é", max_size=12)))
def test_texts_among_bounds(texts: list[str], given_bounds: list[str]) -> None:
    bounds = sorted({b.encode() for b in given_bounds})
    plain = [t.encode() for t in texts]
    heap = np.frombuffer(b"".join(bounds) + b"\0", np.uint8)
    length = np.array([len(b) for b in bounds], np.int64)
    start = np.cumsum(length) - length
    prefix = np.array([text_prefix(heap, s, n) for s, n in zip(start, length, strict=True)], np.uint64)
    place, equal = np.empty(len(plain), np.int64), np.empty(len(plain), np.bool_)
    offsets = np.cumsum([0] + [len(t) for t in plain]).astype(np.int32)
    locate_texts(offsets, np.frombuffer(b"".join(plain) + b"\0", np.uint8), heap, start, length, prefix, place, equal)
    assert list(zip(place.tolist(), equal.tolist(), strict=True)) == [locate(bounds, t) for t in plain]


@pytest.mark.parametrize(("text", "prefix"), [(b"", 0), (b"a", 0x61 << 56), (b"abcdefghij", 0x6162636465666768)])
def test_prefix_is_the_first_eight_bytes(text: bytes, prefix: int) -> None:
    assert text_prefix(np.frombuffer(text + b"\0", np.uint8), 0, len(text)) == prefix
