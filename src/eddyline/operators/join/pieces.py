"""Complete combinations of a slice as one sequence, made piece by piece.

Answer   `in_pieces` gives what the inputs of a root node make, in the order of newest rows. Each input has a strand:
         its new rows probe, oldest first, as the caller takes them. A piece leaves as soon as every strand has come
         as far as its last row:

             strand a   ──■■■■■────►            the strand that has come least far goes on
             strand b   ──■■■───────►
                            └ up to here both have made everything: a piece

State    Within one slice: what strands have made and no piece has.
Limits   At most about two pieces, and a portion of pairs for each strand, are held at once. `whole` pieces never part
         the combinations of one newest row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from eddyline.operators.join.combination import POSITION_BITS, Combinations, in_order

Strand = Iterator[Combinations]


def in_pieces(
    strands: Sequence[Strand],
    ranks: range,
    most: int,
    whole: bool = False,
    note: Callable[[int], None] = lambda _: None,
) -> Iterator[Combinations]:
    """Combinations by newest row, about `most` at a time; ranks of newest rows lie in `ranks`. Each strand gives them
    in that order.
    `note` is called with the number that is held."""
    held: list[list[Combinations]] = [[] for _ in strands]
    #: The last stamp that each strand has made.
    reached = [-1] * len(strands)
    live = list(range(len(strands)))
    while live:
        at = min(live, key=reached.__getitem__)
        made = next(strands[at], None)
        if made is None:
            live.remove(at)
        elif len(made):
            held[at].append(made)
            reached[at] = int(made.stamp[-1])
        count = sum(len(part) for parts in held for part in parts)
        note(count)
        if not live or count < most:
            continue
        ready = min(reached[at] for at in live)
        if whole:
            ready = (ready >> POSITION_BITS << POSITION_BITS) - 1
        if sum(_upto(part, ready) for parts in held for part in parts) >= most // 2:
            yield from _cut(_taken(held, ready), ranks, most, whole)
    yield from _cut([part for parts in held for part in parts], ranks, most, whole)


def sorted_by_age(rows: Combinations) -> Combinations:
    """New rows in the order in which a strand takes them."""
    return rows if bool((rows.stamp[1:] >= rows.stamp[:-1]).all()) else rows.take(np.argsort(rows.stamp, kind="stable"))


def _upto(part: Combinations, ready: int) -> int:
    return (
        len(part)
        if len(part) and int(part.stamp[-1]) <= ready
        else int(np.searchsorted(part.stamp, ready, side="right"))
    )


def _taken(held: list[list[Combinations]], ready: int) -> list[Combinations]:
    """What has no newer newest row; it is no longer held."""
    taken = []
    for number, parts in enumerate(held):
        left = []
        for part in parts:
            cut = _upto(part, ready)
            taken += [part.part(0, cut)] if cut else []
            left += [part.part(cut, len(part))] if cut < len(part) else []
        held[number] = left
    return taken


def _cut(parts: list[Combinations], ranks: range, most: int, whole: bool) -> Iterator[Combinations]:
    """Parts in order, cut where they are too long for one piece."""
    if not parts:
        return
    rows = in_order(parts, ranks.start, len(ranks))
    parts.clear()
    yield from cut(rows, most, whole)


def cut(rows: Combinations, most: int, whole: bool = False) -> Iterator[Combinations]:
    """Rows in order as parts of about `most`; `whole` ones never part the combinations of one newest row."""
    begin = 0
    while begin < len(rows):
        stop = min(begin + most, len(rows))
        if whole and stop < len(rows):
            last = (int(rows.stamp[stop - 1]) >> POSITION_BITS) + 1
            stop = int(np.searchsorted(rows.rank, last))
        yield rows if stop - begin == len(rows) else rows.part(begin, stop)
        begin = stop
