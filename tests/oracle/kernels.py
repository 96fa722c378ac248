"""Each kernel's slow twin, in plain loops."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise


def matches(
    hashes: Sequence[int],
    limit: Sequence[int],
    floor: Sequence[int],
    keys: Sequence[int],
    order: Sequence[int],
    dead: Sequence[int],
    first: int,
    end: int,
    keyed: bool = True,
) -> list[tuple[int, int]]:
    """(probing row, stored id) for every stored row of equal key that is older and alive; ids are positions."""
    found = []
    for o in range(len(limit)):
        for row in range(first, end):
            if (not keyed or keys[row] == hashes[o]) and order[row] < limit[o] and dead[row] >= floor[o]:
                found.append((o, row))
    return found


def stable_order(ranks: Sequence[int]) -> list[int]:
    return sorted(range(len(ranks)), key=lambda i: ranks[i])


def never_falls(values: Sequence[int]) -> bool:
    return all(a <= b for a, b in pairwise(values))


def surveyed(data: bytes) -> tuple[int, bool, bool, bool]:
    """Line ends; whether all is ASCII; whether 0x or 0X occurs; whether a line begins with a line end or a carriage
    return."""
    begins = [0, *(place + 1 for place, byte in enumerate(data) if byte == 10)]
    return (
        data.count(b"\n"),
        data.isascii(),
        b"0x" in data or b"0X" in data,
        any(data[place : place + 1] in (b"\n", b"\r") for place in begins),
    )


def hashed_text(data: bytes) -> int:
    """`hash_strings` of one text, byte by byte."""
    word, gold = 1 << 64, 0x9E3779B97F4A7C15

    def mixed(x: int) -> int:
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % word
        x = (x ^ (x >> 27)) * 0x94D049BB133111EB % word
        return x ^ (x >> 31)

    found = mixed((len(data) + gold) % word)
    for place in range(0, len(data), 8):
        found = mixed((found * gold + int.from_bytes(data[place : place + 8], "little")) % word)
    return found - word if found >= word // 2 else found
