"""The slow twins of the kernels of zones, in plain loops."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any


def ranges(keys: Sequence[int], valid: Sequence[bool], cuts: Sequence[int]) -> list[tuple[int, int, bool]]:
    found = []
    for begin, stop in pairwise(cuts):
        there = [key for key, known in zip(keys[begin:stop], valid[begin:stop], strict=True) if known]
        found.append((min(there, default=2**63 - 1), max(there, default=-(2**63)), len(there) < stop - begin))
    return found


def starts(begin: int, end: int, heralds: Sequence[int], most: int, least: int) -> list[int]:
    """Row by row: whether a zone begins here."""
    found = [begin]
    for row in range(begin + 1, end):
        if row - found[-1] >= (least if row in heralds else most):
            found.append(row)
    return found


def prefix(text: str) -> int:
    return int.from_bytes(text.encode()[:8].ljust(8, b"\0"), "big") - 2**63


def scanned(
    hashes: Any,
    limit: Any,
    floor: Any,
    keyed: bool,
    keys: Any,
    order: Any,
    dead: Any,
    base: int,
    row_cuts: Any,
    cuts: Any,
    kinds: Any,
) -> tuple[list[tuple[int, int, int]], int]:
    """(probing row, stored id, cell) of the cells that are not skipped, and how many pairs were looked at."""
    found, looked = [], 0
    for line, (begin, stop) in enumerate(pairwise(row_cuts.tolist())):
        for o in range(begin, stop):
            for at, (first, end) in enumerate(pairwise(cuts.tolist())):
                if kinds[line, at] < 0:
                    continue
                for row in range(first, end):
                    p = row - base
                    looked += 1
                    if (not keyed or keys[p] == hashes[o]) and order[p] < limit[o] and dead[p] >= floor[o]:
                        found.append((o, row, int(kinds[line, at])))
    return found, looked


def settled(
    limit: Any,
    floor: Any,
    order: Any,
    dead: Any,
    base: int,
    row_cuts: Any,
    cuts: Any,
    kinds: Any,
    by_kind: Any,
    tested: list[tuple[int, int]],
) -> tuple[list[tuple[int, int]], int]:
    """All pairs of the settled cells and the tested ones, in the order of a scan; how many pairs of settled cells were
    looked at."""
    chosen = [[kind if kind >= 0 and by_kind[kind] else -1 for kind in line] for line in kinds.tolist()]
    found, looked = scanned(limit, limit, floor, False, order, order, dead, base, row_cuts, cuts, _Lines(chosen))
    return sorted([(o, row) for o, row, _ in found] + tested), looked


class _Lines:
    def __init__(self, lines: list[list[int]]) -> None:
        self.lines = lines

    def __getitem__(self, at: tuple[int, int]) -> int:
        return self.lines[at[0]][at[1]]


def bounded(keys: Any, valid: Any, least: Any, most: Any, o: int, p: int) -> bool:
    """Whether the keys of a stored row lie within the bounds of a probing row."""
    return all((valid is None or valid[c, p]) and least[c, o] <= keys[c, p] <= most[c, o] for c in range(len(keys)))
