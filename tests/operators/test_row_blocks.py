"""Rows that are written down by what changed: whatever changed between snapshots, the blocks of the last one give the
rows of that moment, and a row is written again seldom."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from eddyline.operators.row_blocks import ROW_NUMBER, RowBlocks
from eddyline.state.columns import Ints
from tests.seeds import cases, first_seed


class Model:
    """Rows in a dictionary, and the blocks that a job would have on its disk."""

    def __init__(self) -> None:
        self.rows: dict[int, int] = {}
        self.blocks = RowBlocks()
        self.disk: dict[str, pa.Table] = {}
        self.saved: list[list[object]] = []
        self.written = 0
        self.run = 0

    def change(self, rows: Ints, values: Ints) -> None:
        self.rows |= dict(zip(rows.tolist(), values.tolist(), strict=True))
        self.blocks.note(rows)

    def drop(self, rows: Ints) -> None:
        for row in rows.tolist():
            self.rows.pop(row, None)
        self.blocks.note(rows, gone=True)

    def snapshot(self, again: Callable[[str], bool] = lambda name: False) -> None:
        """`again`: blocks that are on the disk and are written anew, as when a bundle is mostly dead."""

        def content(rows: Ints) -> pa.Table:
            return pa.table({"value": np.array([self.rows[row] for row in rows.tolist()], np.int64)})

        self.saved, blocks = self.blocks.snapshot(
            f"run{self.run}", lambda: np.array(sorted(self.rows), np.int64), content
        )
        kept = {name: self.disk[name] for name in blocks if name in self.disk and not again(name)}
        fresh = {name: block() for name, block in blocks.items() if name not in kept}
        self.written += sum(len(table) for table in fresh.values())
        self.disk = kept | fresh

    def restart(self) -> None:
        self.run += 1
        self.blocks = RowBlocks()
        table = self.blocks.restore(self.saved, self.disk.__getitem__)
        found = dict(zip(*(table.column(name).to_pylist() for name in (ROW_NUMBER, "value")), strict=True))
        assert found == self.rows and table.column(ROW_NUMBER).to_pylist() == sorted(self.rows)


@pytest.mark.parametrize("case", range(cases(120, 3000)))
def test_any_changes(case: int) -> None:
    draw, model = np.random.default_rng(first_seed(case)), Model()
    most = int(draw.integers(1, 400))
    for _ in range(int(draw.integers(2, 60))):
        for _ in range(int(draw.integers(0, 4))):
            rows = np.unique(draw.integers(0, most, int(draw.integers(0, most))))
            if draw.random() < 0.6:
                model.change(rows, draw.integers(0, 1 << 40, len(rows)))
            else:
                model.drop(rows[np.isin(rows, list(model.rows))])
        if draw.random() < 0.05:
            model.blocks.renew()
        model.snapshot(lambda name: draw.random() < 0.1)
        if draw.random() < 0.3:
            model.restart()
    model.restart()


def test_a_snapshot_without_changes_writes_nothing() -> None:
    model = Model()
    model.change(np.arange(1000), np.arange(1000))
    model.snapshot()
    assert model.written == 1000
    model.snapshot()
    assert model.written == 1000


@pytest.mark.parametrize("kind", ["new", "changed", "come and gone"])
def test_rows_are_written_again_seldom(kind: str) -> None:
    """2,000 snapshots of ten rows each over 100 to 20,000 rows: at most eleven times what changed is written."""
    draw, model, changed = np.random.default_rng(5), Model(), 0
    if kind != "new":
        model.change(np.arange(20_000), np.arange(20_000))
    model.snapshot()
    first = model.written
    for number in range(2000):
        rows = np.arange(10) + 10 * number if kind == "new" else np.unique(draw.integers(0, 20_000, 10))
        if kind == "come and gone" and number % 2:
            model.drop(rows)
        else:
            model.change(rows, rows)
        model.snapshot()
        changed += len(rows)
        assert len(model.saved) <= 24
    assert model.written - first <= 11 * changed
    assert sum(len(table) for table in model.disk.values()) <= 3 * len(model.rows) + 1000
    model.restart()
