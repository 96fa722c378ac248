"""The conditions of a scan as bounds of stored keys.

Answer   `bounds_of` turns the differences between probing rows and stored rows into a least and a greatest key per
         probing row: a scan then compares numbers, and makes no pair that fails.

             a.x BETWEEN b.x - 1 AND b.x + 1      a row of b with x = 7 wants rows of a with keys 6 … 8

State    None.
Limits   For differences between one column of the rows and one of the store. Texts have prefixes for keys, `<>` is no
         bound, a function of a column has no stored key: such conditions are evaluated. A bound beyond 64 bits leaves
         all to evaluation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np

from eddyline.kernels.joins.zones import Within
from eddyline.model.expressions.differences import LEAST_KEY, MOST_KEY, Conjunct, Ints, Variable
from eddyline.operators.join.combination import Combinations
from eddyline.operators.join.inputs import Input
from eddyline.operators.join.zones.ranges import Sides


def is_bound(
    part: Conjunct | None, variables: tuple[Variable, ...], rows: Collection[int], stored: Collection[int]
) -> bool:
    """Whether a condition bounds a stored column by one of the probing rows."""
    if part is None or part.prefixes or part.operator not in ("<=", "="):
        return False
    sides = {part.left in rows, part.right in rows} == {True, False} == {part.left in stored, part.right in stored}
    return sides and variables[part.left].is_column and variables[part.right].is_column


def bounds_of(
    sides: Sides, parts: Iterable[Conjunct], rows: Combinations, one: Input, mine: Collection[int]
) -> Within | None:
    """The bounds of a portion; None: one of them is beyond 64 bits. `mine`: the variables of the probing rows."""
    least: dict[int, Ints] = {}
    most: dict[int, Ints] = {}
    count = len(rows)
    for part in parts:
        from_left = part.left in mine
        here, there = (part.left, part.right) if from_left else (part.right, part.left)
        keys, valid = sides.keys_of_rows(here, rows)
        # u - v <= c: a row with u wants v >= u - c, a row with v wants u <= v + c.
        shift = -part.bound if from_left else part.bound
        known = keys if valid is None else keys[valid]
        if len(known) and not LEAST_KEY < int(known.min()) + shift <= int(known.max()) + shift < MOST_KEY:
            return None
        bound = (keys if valid is None else np.where(valid, keys, 0)) + shift
        low, high = np.full(count, LEAST_KEY), np.full(count, MOST_KEY)
        if part.operator == "=":
            low = high = bound
        elif from_left:
            low = bound + part.strict
        else:
            high = bound - part.strict
        if valid is not None:
            low, high = np.where(valid, low, MOST_KEY), np.where(valid, high, LEAST_KEY)
        least[there] = np.maximum(least[there], low) if there in least else low
        most[there] = np.minimum(most[there], high) if there in most else high
    found = [sides.keys_of_store(number, one) for number in least]
    has_nulls = any(valid is not None for _, valid in found)
    size = len(found[0][0])
    flags = (
        [np.ones(size, np.bool_) if valid is None else valid for _, valid in found]
        if has_nulls
        else [np.empty(0, np.bool_)]
    )
    return Within(
        np.stack([keys for keys, _ in found]),
        np.stack(flags),
        has_nulls,
        np.stack(list(least.values())),
        np.stack(list(most.values())),
    )
