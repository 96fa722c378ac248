"""The matches that end with an event: backtracking over the chains of a run.

Answer   `enumerate_matches` assigns leaves that come last first; a leaf's events then lie before the oldest of those
         that follow it, and the search stops at the WITHIN edge. Conditions between two names are tested as soon as
         both are assigned.
Limits   Stops where the output is full and says how many assignments it had found; called again with that number it
         goes on.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from eddyline.kernels.patterns.automaton_arrays import EVENT, GAP, GAPS, OUT, PROBES

_ONE = np.uint64(1)
_ZERO = np.uint64(0)


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
def _gaps(run, m, machines, runs, links, events, scratch, out, count):
    """Whether all gaps of a complete assignment are empty: 1, 0; -1 where candidates found no room. Candidates that
    must be tested on columns are put out."""
    first = machines.first[m]
    assigned = scratch.assigned
    for leaf in range(machines.size[m]):
        at = first + leaf
        if machines.kind[at] != GAP:
            continue
        low, high = np.int64(-1), np.int64(1) << np.int64(62)
        for other in range(machines.size[m]):
            if (machines.before[at] >> np.uint64(other)) & _ONE:
                low = max(low, events.rank[assigned[other]])
            if (machines.after[at] >> np.uint64(other)) & _ONE:
                high = min(high, events.rank[assigned[other]])
        link = runs.heads[runs.block[run] + leaf]
        while link >= 0:
            event = links.event[link]
            count[PROBES] += 1
            if events.rank[event] <= low:
                break
            if events.rank[event] < high:
                assigned[leaf] = event
                if _tested(m, leaf, machines.whole[m] | (_ONE << np.uint64(leaf)), assigned, machines, events):
                    if not machines.open_gap[at]:
                        return 0
                    place = count[GAPS]
                    if place == len(out.gap_match):
                        return -1
                    out.gap_match[place] = count[OUT]
                    out.gap_leaf[place] = leaf
                    out.gap_event[place] = event
                    count[GAPS] += 1
            link = links.next[link]
    return 1


@njit(cache=True, nogil=True, forceinline=True)
def _high(m, leaf, have, rank, forced, earlier, machines, events, assigned):
    """The rank below which a leaf's events lie: before every leaf that follows it, and not the newest event where that
    is another's."""
    high = rank + 1
    bit = _ONE << np.uint64(leaf)
    if earlier & bit != _ZERO:
        high = rank
    first = machines.first[m]
    for other in range(machines.size[m]):
        if (
            (have >> np.uint64(other)) & _ONE
            and machines.kind[first + other] == EVENT
            and machines.before[first + other] & bit != _ZERO
        ):
            high = min(high, events.rank[assigned[other]])
    return high


@njit(cache=True, nogil=True, forceinline=True)
def enumerate_matches(run, sinks, event, row, trace, skip, traces, machines, runs, links, events, scratch, out, count):
    """All matches whose newest event this is. Each has a first leaf of `sinks` that takes the event; the ones before it
    in `sinks` take older ones. Returns -1 at the end, else how many were found before there was no room."""
    m = runs.machine[run]
    assigned, cursor = scratch.assigned, scratch.cursor
    rank, edge = events.rank[event], events.ts[event] - machines.within[m]
    found = np.int64(0)
    earlier = _ZERO
    leaves = 0
    for leaf in range(machines.size[m]):
        if machines.kind[machines.first[m] + leaf] == EVENT:
            leaves += 1
    for forced in range(leaves):
        if (sinks >> np.uint64(forced)) & _ONE == _ZERO:
            continue
        assigned[forced] = event
        have = _ONE << np.uint64(forced)
        depth = 0
        good = _tested(m, forced, have, assigned, machines, events)
        entering = True
        while good and depth >= 0:
            if depth == leaves:
                found += 1
                if found > skip:
                    before = count[GAPS]
                    empty = (
                        0
                        if count[OUT] == len(out.machine)
                        else _gaps(run, m, machines, runs, links, events, scratch, out, count)
                    )
                    if count[OUT] == len(out.machine) or empty < 0:
                        count[GAPS] = before
                        return found - 1
                    if empty == 1:
                        place = count[OUT]
                        for leaf in range(leaves):
                            out.events[place, leaf] = assigned[leaf]
                        out.machine[place], out.row[place] = m, row
                        out.serial[place], out.code[place] = traces.serial[trace], trace
                        count[OUT] += 1
                    else:
                        count[GAPS] = before
                depth -= 1
                entering = False
                continue
            leaf = machines.order[machines.first[m] + depth]
            if leaf == forced:
                depth += 1 if entering else -1
                continue
            bit = _ONE << np.uint64(leaf)
            have &= ~bit
            high = _high(m, leaf, have, rank, forced, earlier, machines, events, assigned)
            link = runs.heads[runs.block[run] + leaf] if entering else links.next[cursor[depth]]
            while link >= 0:
                candidate = links.event[link]
                count[PROBES] += 1
                if events.ts[candidate] < edge:
                    link = -1
                    break
                if events.rank[candidate] < high:
                    assigned[leaf] = candidate
                    if _tested(m, leaf, have | bit, assigned, machines, events):
                        break
                link = links.next[link]
            if link >= 0:
                cursor[depth] = link
                have |= bit
                depth += 1
                entering = True
            else:
                depth -= 1
                entering = False
        earlier |= _ONE << np.uint64(forced)
    return np.int64(-1)
