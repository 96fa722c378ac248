"""Rows leave a store from anywhere: with random appends, drops, expiry, spilling, compaction and restarts it equals a
plain list."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from eddyline.kernels.joins import probe
from eddyline.state.renumbering import GONE
from eddyline.state.segment import Segment, SegmentList, open_columns
from eddyline.state.spill import SpilledColumn
from eddyline.state.store import Store
from tests.state.test_store import TYPES, some_row

KEYS = 5


@dataclass
class Model:
    """The store, and beside it a list of (number, row, key); what was written down, by name."""

    rng: Random
    store: Store = field(default_factory=lambda: new_store())
    rows: list[tuple[int, dict[str, object], int]] = field(default_factory=list)
    #: What a holder of ids remembers: the id of each row.
    ids: dict[int, int] = field(default_factory=dict)
    keys: dict[int, int] = field(default_factory=dict)
    blocks: dict[str, pa.Table] = field(default_factory=dict)
    count: int = 0
    compactions: int = 0

    def __post_init__(self) -> None:
        self.segments = SegmentList(self.store)

    def append(self) -> None:
        new = [(self.count + i, some_row(self.rng), self.rng.randrange(KEYS)) for i in range(self.rng.randrange(40))]
        self.count += len(new)
        payload = {name: pa.array([row[name] for _, row, _ in new], kind.arrow) for name, kind in TYPES.items()}
        numbers, keys = np.array([n for n, _, _ in new], np.int64), np.array([key for _, _, key in new], np.int64)
        start = self.store.append(len(new), payload, {"key:k": keys, "seq": numbers})
        self.ids |= {number: start + i for i, (number, _, _) in enumerate(new)}
        self.rows += new
        self.keys |= {n: key for n, _, key in new}

    def forget(self) -> None:
        gone = self.rng.randrange(len(self.rows) // 3 + 1)
        self.store.forget_before(self.ids[self.rows[gone][0]] if gone < len(self.rows) else self.store.end)
        self._leave({n for n, _, _ in self.rows[:gone]})

    def drop(self) -> None:
        part = self.rng.random() ** 2
        gone = {n for n, _, _ in self.rows if self.rng.random() < part}
        asked = [self.ids[n] for n in gone]
        self.rng.shuffle(asked)
        # Ids may be asked for twice, and ids of rows that left before.
        assert self.store.drop(np.array(asked + asked[:2] + [self.store.first - 1], np.int64)) == len(gone)
        self._leave(gone)

    def _leave(self, gone: set[int]) -> None:
        self.rows = [row for row in self.rows if row[0] not in gone]
        self.ids = {n: i for n, i in self.ids.items() if n not in gone}

    def compact(self, least: int) -> None:
        half_gone = 2 * self.store.dropped >= self.store.extent and self.store.dropped >= max(least, 1)
        old = np.array(list(self.ids.values()), np.int64)
        bound = old.min() + len(old) // 2 if len(old) else 0
        moved = self.store.compact(least)
        assert (moved is not None) == half_gone
        if moved is not None:
            self.compactions += 1
            new = moved.of(old)
            assert (new != GONE).all() and moved.kept(old).tolist() == new.tolist()
            assert moved.bound(int(bound)) == min(new[old >= bound], default=self.store.end)
            self.ids = dict(zip(self.ids, new.tolist(), strict=True))
            self.segments.renumber(moved)

    def restart(self) -> None:
        store, segments = self.store, self.segments
        segments.seal()
        for segment in segments.segments:
            if segment.name not in self.blocks:
                self.blocks[segment.name] = segments.table(segment)
        if (name := segments.dropped) is not None:
            table = segments.dropped_table()
            assert self.blocks.setdefault(name, table).equals(table), "a name means one content"
        header = (
            store.first,
            store.end,
            store.generation,
            store.drops,
            [(s.first, s.end, s.token) for s in segments.segments],
            segments.dropped,
        )
        self.reopen(*header)

    def reopen(
        self, first: int, end: int, generation: int, drops: int, ranges: list[tuple[int, int, str]], dropped: str | None
    ) -> None:
        self.store = new_store()
        self.segments = SegmentList(self.store)
        self.segments.segments = [Segment("s", *saved) for saved in ranges]
        tables = [self.blocks[segment.name] for segment in self.segments.segments]
        self.store.base = self.store.first = self.store.end = end - sum(len(t) for t in tables)
        for table in tables:
            columns = open_columns(table)
            columns["key:k"] = np.array([self.keys[n] for n in columns["seq"].tolist()], np.int64)
            self.store.append(len(table), {name: table.column(name).combine_chunks() for name in TYPES}, columns)
        self.store.forget_before(first)
        if dropped is not None:
            self.store.drop(np.asarray(self.blocks[dropped].column("id")))
        self.store.generation, self.store.drops = generation, drops

    def check(self) -> None:
        store = self.store
        assert store.live == len(self.rows)
        ids = np.array([self.ids[n] for n, _, _ in self.rows], np.int64)
        assert store.ids().tolist() == ids.tolist()
        assert store.holds(ids).all() and store.holds(np.arange(store.first, store.end)).sum() == len(ids)
        for name in TYPES:
            assert store.gather(name, ids).to_pylist() == [row[name] for _, row, _ in self.rows]
        assert store.at("seq", ids).tolist() == [n for n, _, _ in self.rows]
        index, asked, far = store.indexes["key:k"], np.arange(KEYS), np.full(KEYS, 2**62)
        left, right, visited = probe.probe_chains(probe.ProbeKeys(asked, far, -far), index.chains("seq", "seq", False))
        found = sorted(zip(left.tolist(), right.tolist(), strict=True))
        assert found == sorted((key, self.ids[n]) for n, _, key in self.rows)
        assert visited <= len(self.rows) * KEYS


def new_store() -> Store:
    store = Store("s", TYPES)
    store.add_column("key:k", np.int64, derived=True)
    store.add_column("seq", np.int64)
    store.add_index("key:k")
    return store


@pytest.mark.parametrize("spills", [False, True])
@pytest.mark.parametrize("seed", range(25))
def test_a_store_is_a_list_that_rows_leave_from_anywhere(seed: int, spills: bool, tmp_path: Path) -> None:
    model = Model(Random(seed))
    for _ in range(80):
        choice = model.rng.random()
        if choice < 0.4:
            model.append()
        elif choice < 0.55:
            model.forget()
        elif choice < 0.75:
            model.drop()
        elif choice < 0.85:
            model.compact(least=model.rng.choice([1, 1, 10]))
        elif choice < 0.9:
            model.restart()
        if spills and model.rng.random() < 0.3:
            model.store.spill(tmp_path, least_rows=1)
        model.check()
    assert model.compactions or model.count < 900
    model.store.forget_before(model.store.end)
    model.store.append(model.store.capacity, {}, {"key:k": np.zeros(model.store.capacity, np.int64)})
    held = sum(len(c.pieces) for c in model.store.payload.values() if isinstance(c, SpilledColumn))
    assert held == 0


def test_a_row_that_nothing_wants_leaves_its_chain_at_once() -> None:
    store = new_store()
    store.append(1000, {}, {"key:k": np.zeros(1000, np.int64), "seq": np.arange(1000)})
    store.drop(np.arange(1, 999, 2))
    index, one, far = store.indexes["key:k"], np.zeros(1, np.int64), np.array([2**62])
    _, right, visited = probe.probe_chains(probe.ProbeKeys(one, far, -far), index.chains("seq", "seq", False))
    assert visited == store.live == len(right) == 501


def test_closing_gaps_reads_no_file_and_the_next_spill_makes_files_dense(tmp_path: Path) -> None:
    store = Store("s", {"t": TYPES["t"]})
    texts = [f"row {n}" for n in range(4000)]
    for start in range(0, 4000, 1000):
        store.append(1000, {"t": pa.array(texts[start : start + 1000])}, {})
        store.spill(tmp_path, least_rows=1)
    column = store.payload["t"]
    assert isinstance(column, SpilledColumn) and len(column.pieces) == 4
    before = [piece.values for piece in column.pieces]
    kept = [n for n in range(4000) if n % 7 == 0]
    store.drop(np.array([n for n in range(4000) if n % 7]))
    assert store.compact() is not None
    assert [piece.values for piece in column.pieces] == before, "the files are those of before"
    assert column.head.nbytes < 10_000, "nothing was read back"
    assert store.gather("t", store.ids()).to_pylist() == [texts[n] for n in kept]
    store.spill(tmp_path, least_rows=1)
    assert len(list(tmp_path.iterdir())) == len(column.pieces) == 1
    assert sum(len(piece.values) for piece in column.pieces) == len(kept)
    assert store.gather("t", store.ids()).to_pylist() == [texts[n] for n in kept]


def test_names_of_segments_differ_after_rows_got_new_ids() -> None:
    store = Store("s", {"n": TYPES["n"]})
    segments = SegmentList(store)
    store.append(1000, {"n": pa.array(range(1000))}, {})
    segments.seal()
    (written,) = segments.segments
    assert (written.first, written.end) == (0, 1000) and segments.dropped is None
    store.drop(np.arange(1, 999))
    segments.seal()
    assert segments.segments == [written], "a dropped row does not write its segment again"
    assert str(segments.dropped).endswith("-998-1") and len(segments.dropped_table()) == 998
    moved = store.compact()
    assert moved is not None
    segments.renumber(moved)
    store.append(500, {"n": pa.array(range(500))}, {})
    segments.seal()
    (again,) = segments.segments
    assert (again.first, again.end) == (998, 1500) and again.token != written.token and segments.dropped is None
