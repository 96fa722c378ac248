"""The matches that end with an event: a search over the chains of a run, from the last leaf to the first.

Answer   `enumerate_matches` gives leaves their events, those that come last first. A candidate of a leaf lies before the
         events of all leaves after it, and not before the event of a NOT that would fill a gap after it. Conditions
         between names, and gaps whose events depend on names, are tested as soon as these names have events.
         `automaton_runs.py` keeps only events before which all older leaves have events, so that without conditions
         between names no candidate is tried in vain.
State    Where the search stands is in `resume` and `Scratch`.
Limits   The search ends early where the output is full (`FULL`), and where it has taken as many steps as it may at a
         time (`PAUSED`). Called again, it goes on there. Conditions between names are tested on each candidate.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from eddyline.kernels.patterns.automaton_arrays import GAP, GAPS, OUT, PROBES
from eddyline.kernels.patterns.automaton_chains import newest_below

_ONE = np.uint64(1)
_ZERO = np.uint64(0)
#: How a search ends: it has found everything, the output is full, or others shall have a turn.
DONE, FULL, PAUSED = 0, 1, 2
#: Places in `resume`: the events that are visited at a time; the row at hand, whether its matches are being enumerated,
#: the run, whether it has any matches; the leaf that takes the newest event, the depth of the search (-1: it has not
#: begun), and whether it comes from the depth before.
STEPS, ROW, ENUMERATING, RUN, SOME, FORCED, DEPTH, ENTERING = range(8)
PLACES = 8
#: More than any rank.
_ABOVE = np.int64(1) << np.int64(62)


@njit(cache=True, nogil=True, forceinline=True)
def _holds(operator, a, b):
    if operator == 0:
        return a == b
    if operator == 1:
        return a != b
    if operator == 2:
        return a < b
    if operator == 3:
        return a <= b
    if operator == 4:
        return a > b
    return a >= b


@njit(cache=True, nogil=True, forceinline=True)
def _tested(m, leaf, have, assigned, machines, events):
    """The conditions between a leaf just assigned and those assigned before."""
    for c in range(machines.test_first[m], machines.test_first[m + 1]):
        left, right = machines.test_left[c], machines.test_right[c]
        if left != leaf and right != leaf:
            continue
        if (have >> np.uint64(left)) & (have >> np.uint64(right)) & _ONE == _ZERO:
            continue
        a, b = assigned[left], assigned[right]
        x, y = machines.test_left_column[c], machines.test_right_column[c]
        if events.nulls[a, x] or events.nulls[b, y]:
            return False
        if not _holds(machines.test_operator[c], events.keys[a, x], events.keys[b, y]):
            return False
    return True


@njit(cache=True, nogil=True, forceinline=True)
def _high(m, leaf, have, rank, forced, earlier, machines, events, assigned):
    """The rank below which a leaf's events lie: before every leaf that follows it, and not the newest event where that
    is another's."""
    high = rank + 1
    bit = _ONE << np.uint64(leaf)
    if earlier & bit != _ZERO:
        high = rank
    first = machines.first[m]
    for other in range(machines.leaves[m]):
        if (have >> np.uint64(other)) & _ONE and machines.before[first + other] & bit != _ZERO:
            high = min(high, events.rank[assigned[other]])
    return high


@njit(cache=True, nogil=True, forceinline=True)
def _edges(m, gap, have, machines, events, assigned):
    """The ranks between which the events of a gap lie, from the leaves that have events."""
    low, high = np.int64(-1), _ABOVE
    for leaf in range(machines.leaves[m]):
        bit = _ONE << np.uint64(leaf)
        if have & bit == _ZERO:
            continue
        if machines.last_before[gap] & bit != _ZERO:
            low = max(low, events.rank[assigned[leaf]])
        if machines.after[gap] & bit != _ZERO:
            high = min(high, events.rank[assigned[leaf]])
    return low, high


@njit(cache=True, nogil=True, forceinline=True)
def _fits(m, place, have, assigned, machines, events):
    """Whether the event that the gap `place` has in `assigned` meets its conditions."""
    if machines.plain_gap[machines.first[m] + place]:
        return True
    return _tested(m, place, have | (_ONE << np.uint64(place)), assigned, machines, events)


@njit(cache=True, nogil=True, forceinline=True)
def _filled_from(run, m, place, low, high, edge, have, machines, runs, links, events, assigned, count):
    """The rank of the newest event between `low` and `high`, not before the time `edge`, that fills a gap; -1: there is
    none."""
    link = newest_below(runs.heads[runs.block[run] + place], high, links, events, count)
    while link >= 0:
        event = links.event[link]
        if events.rank[event] <= low or events.ts[event] < edge:
            return np.int64(-1)
        count[PROBES] += 1
        assigned[place] = event
        if _fits(m, place, have, assigned, machines, events):
            return events.rank[event]
        link = links.next[link]
    return np.int64(-1)


@njit(cache=True, nogil=True, forceinline=True)
def _cut(run, m, leaf, edge, have, machines, runs, links, events, assigned, count):
    """The rank that a leaf's events must reach: an older one has a filled gap after it."""
    cut = np.int64(-1)
    bit = _ONE << np.uint64(leaf)
    first = machines.first[m]
    for place in range(machines.leaves[m], machines.size[m]):
        gap = first + place
        if (
            machines.kind[gap] != GAP
            or machines.last_before[gap] & bit == _ZERO
            or machines.needs[gap] & ~have != _ZERO
        ):
            continue
        low, high = _edges(m, gap, have, machines, events, assigned)
        # Of the other leaves before the gap the newest event counts, also of those that have none yet.
        others = machines.last_before[gap] & ~bit & ~have
        for other in range(machines.leaves[m]):
            if (others >> np.uint64(other)) & _ONE != _ZERO:
                link = newest_below(runs.heads[runs.block[run] + other], high, links, events, count)
                if link >= 0:
                    low = max(low, events.rank[links.event[link]])
        cut = max(
            cut, _filled_from(run, m, place, low, high, edge, have, machines, runs, links, events, assigned, count)
        )
    return cut


@njit(cache=True, nogil=True, forceinline=True)
def _gaps_empty(run, m, leaf, edge, have, machines, runs, links, events, assigned, count):
    """Whether no event fills a gap that can be tested since `leaf` has its event."""
    bit = _ONE << np.uint64(leaf)
    first = machines.first[m]
    for place in range(machines.leaves[m], machines.size[m]):
        gap = first + place
        if machines.kind[gap] != GAP or machines.needs[gap] & bit == _ZERO:
            continue
        if (machines.needs[gap] | machines.last_before[gap]) & ~have != _ZERO:
            continue
        low, high = _edges(m, gap, have, machines, events, assigned)
        if _filled_from(run, m, place, low, high, edge, have, machines, runs, links, events, assigned, count) >= 0:
            return False
    return True


@njit(cache=True, nogil=True, forceinline=True)
def _put_out_gaps(run, m, machines, runs, links, events, assigned, out, count):
    """Put out the events that may fill gaps whose conditions need columns; False where there is no room."""
    first = machines.first[m]
    for place in range(machines.leaves[m], machines.size[m]):
        gap = first + place
        if machines.kind[gap] != GAP or not machines.open_gap[gap]:
            continue
        low, high = _edges(m, gap, machines.whole[m], machines, events, assigned)
        link = newest_below(runs.heads[runs.block[run] + place], high, links, events, count)
        while link >= 0 and events.rank[links.event[link]] > low:
            count[PROBES] += 1
            assigned[place] = links.event[link]
            if _fits(m, place, machines.whole[m], assigned, machines, events):
                at = count[GAPS]
                if at == len(out.gap_match):
                    return False
                out.gap_match[at], out.gap_leaf[at], out.gap_event[at] = count[OUT], place, links.event[link]
                count[GAPS] += 1
            link = links.next[link]
    return True


@njit(cache=True, nogil=True, forceinline=True)
def _put_out(run, m, row, trace, traces, machines, runs, links, events, assigned, out, count):
    """Put out the assignment at hand; False where there is no room."""
    place = count[OUT]
    if place == len(out.machine):
        return False
    before = count[GAPS]
    if not _put_out_gaps(run, m, machines, runs, links, events, assigned, out, count):
        count[GAPS] = before
        return False
    for leaf in range(machines.leaves[m]):
        out.events[place, leaf] = assigned[leaf]
    out.machine[place], out.row[place] = m, row
    out.serial[place], out.code[place] = traces.serial[trace], trace
    count[OUT] += 1
    return True


@njit(cache=True, nogil=True, forceinline=True)
def _search(
    run, forced, earlier, event, row, trace, pause, traces, machines, runs, links, events, scratch, out, count, resume
):
    """The assignments in which `forced` takes the event."""
    m = runs.machine[run]
    first = machines.first[m]
    assigned, cursor = scratch.assigned, scratch.cursor
    rank, edge = events.rank[event], events.ts[event] - machines.within[m]
    depth, entering = resume[DEPTH], resume[ENTERING] != 0
    have = _ONE << np.uint64(forced)
    for at in range(depth):
        have |= _ONE << np.uint64(machines.order[first + at])
    ended = DONE
    while depth >= 0:
        if count[PROBES] > pause:
            ended = PAUSED
            break
        if depth == machines.leaves[m]:
            if not _put_out(run, m, row, trace, traces, machines, runs, links, events, assigned, out, count):
                ended = FULL
                break
            depth -= 1
            entering = False
            continue
        leaf = machines.order[first + depth]
        if leaf == forced:
            depth += 1 if entering else -1
            continue
        bit = _ONE << np.uint64(leaf)
        have &= ~bit
        if entering:
            high = _high(m, leaf, have, rank, forced, earlier, machines, events, assigned)
            link = newest_below(runs.heads[runs.block[run] + leaf], high, links, events, count)
            scratch.cut[depth] = _cut(run, m, leaf, edge, have, machines, runs, links, events, assigned, count)
        else:
            link = links.next[cursor[depth]]
        count[PROBES] += 1
        entering = False
        if link < 0 or links.start[link] < edge or events.rank[links.event[link]] < scratch.cut[depth]:
            depth -= 1
            continue
        cursor[depth] = link
        assigned[leaf] = links.event[link]
        now = have | bit
        if _tested(m, leaf, now, assigned, machines, events) and _gaps_empty(
            run, m, leaf, edge, now, machines, runs, links, events, assigned, count
        ):
            have = now
            depth += 1
            entering = True
    resume[DEPTH], resume[ENTERING] = depth, entering
    return ended


@njit(cache=True, nogil=True)
def enumerate_matches(
    run, sinks, event, row, trace, pause, traces, machines, runs, links, events, scratch, out, count, resume
):
    """All matches whose newest event this is. Each has a first leaf of `sinks` that takes the event; the ones before it
    in `sinks` take older ones."""
    m = runs.machine[run]
    while resume[FORCED] < machines.leaves[m]:
        forced = resume[FORCED]
        bit = _ONE << np.uint64(forced)
        if sinks & bit != _ZERO:
            if resume[DEPTH] < 0:
                scratch.assigned[forced] = event
                if _tested(m, forced, bit, scratch.assigned, machines, events):
                    resume[DEPTH], resume[ENTERING] = 0, 1
            ended = _search(
                run, forced, sinks & (bit - _ONE), event, row, trace, pause,
                traces, machines, runs, links, events, scratch, out, count, resume,
            )  # fmt: skip
            if ended != DONE:
                return ended
        resume[FORCED] += 1
        resume[DEPTH] = -1
    resume[FORCED] = 0
    return DONE
