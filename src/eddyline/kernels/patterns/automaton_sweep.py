"""What runs hold and no match to come can contain leaves them; runs go with their traces and machines.

Answer   `sweep` releases events that lie too long ago for WITHIN, events after which a NOT has come, and events of a NOT
         that lie before all others. Runs without any event go. `end_traces`, `drop_machines` and `finish` end runs
         whole.
State    The caller's arrays.
Limits   `sweep` looks at every event that the runs hold. Of gaps it knows those without conditions on names, between
         two single leaves.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from eddyline.kernels.patterns.automaton_arrays import GAP
from eddyline.kernels.patterns.automaton_chains import note_link, release, release_link, set_jumps
from eddyline.kernels.patterns.automaton_runs import end_trace, new_run, note_run, remove_run
from eddyline.kernels.patterns.borrowing import borrowed

_ONE = np.uint64(1)
_ZERO = np.uint64(0)


@njit(cache=True, nogil=True, forceinline=True)
def _swept(run, now, machines, runs, links, events, count):
    """Whether a run that is swept holds events afterwards."""
    m = runs.machine[run]
    first, block, leaves = machines.first[m], runs.block[run], machines.leaves[m]
    edge = now - machines.within[m]
    held = False
    # Leaves that come last first: their events keep alive those of the leaves before them.
    for depth in range(leaves):
        leaf = machines.order[first + depth]
        bit = _ONE << np.uint64(leaf)
        head = runs.heads[block + leaf]
        _cut_off(block + leaf, edge, np.int64(-1), runs, links, events, count)
        for place in range(leaves, machines.size[m]):
            gap = first + place
            after = machines.after[gap]
            if machines.plain_gap[gap] and machines.last_before[gap] == bit and after & (after - _ONE) == _ZERO:
                _part(block, leaf, place, after, runs, links, events, count)
        set_jumps(runs.heads[block + leaf], links)
        if runs.heads[block + leaf] != head:
            note_run(run, runs, count)
        held = held or runs.heads[block + leaf] >= 0
    for place in range(leaves, machines.size[m]):
        if machines.kind[first + place] == GAP:
            oldest = _oldest_before(first + place, m, block, machines, runs, links, events)
            head = runs.heads[block + place]
            _cut_off(block + place, edge, oldest, runs, links, events, count)
            if runs.heads[block + place] != head:
                note_run(run, runs, count)
            set_jumps(runs.heads[block + place], links)
    return held


@njit(cache=True, nogil=True, forceinline=True)
def _cut_off(head, edge, rank, runs, links, events, count):
    """Release the end of a chain: links that begin before the time `edge`, or whose rank is not above `rank`."""
    newer, link = np.int64(-1), runs.heads[head]
    while link >= 0 and links.start[link] >= edge and events.rank[links.event[link]] > rank:
        newer, link = link, links.next[link]
    if newer < 0:
        runs.heads[head] = -1
    else:
        if link >= 0:
            note_link(newer, links, count)
        links.next[newer] = -1
    release(link, links, events, count)


@njit(cache=True, nogil=True, forceinline=True)
def _part(block, leaf, place, after, runs, links, events, count):
    """Release the events of a leaf that an event of the gap `place` separates from all events to come, and from all
    those that the leaf after the gap has."""
    follower = np.int64(0)
    while (after >> np.uint64(follower)) & _ONE == _ZERO:
        follower += 1
    # Of the followers that are newer than the event at hand the oldest one has the fewest events of the gap before it.
    nearest, candidate = np.int64(-1), runs.heads[block + follower]
    filling = runs.heads[block + place]
    newer, link = np.int64(-1), runs.heads[block + leaf]
    while link >= 0:
        rank = events.rank[links.event[link]]
        while candidate >= 0 and events.rank[links.event[candidate]] > rank:
            nearest, candidate = candidate, links.next[candidate]
        if nearest >= 0:
            while filling >= 0 and events.rank[links.event[filling]] >= events.rank[links.event[nearest]]:
                filling = links.next[filling]
        older = links.next[link]
        if filling >= 0 and events.rank[links.event[filling]] > rank:
            if newer < 0:
                runs.heads[block + leaf] = older
            else:
                note_link(newer, links, count)
                links.next[newer] = older
            release_link(link, links, events, count)
        else:
            newer = link
        link = older


@njit(cache=True, nogil=True, forceinline=True)
def _oldest_before(gap, m, block, machines, runs, links, events):
    """The rank at or below which events of a gap fill nothing: each leaf before the gap has only newer events."""
    rank = np.int64(-1)
    for leaf in range(machines.leaves[m]):
        if (machines.last_before[gap] >> np.uint64(leaf)) & _ONE == _ZERO:
            continue
        link = runs.heads[block + leaf]
        if link < 0:
            return np.iinfo(np.int64).max
        while links.next[link] >= 0:
            link = links.next[link]
        rank = max(rank, events.rank[links.event[link]])
    return rank


@njit(cache=True, nogil=True)
def sweep(codes, now, traces, machines, runs, links, events, count):
    """Events that no match to come can contain leave their chains; rows to come are at or after `now`."""
    machines, runs, links, events = borrowed(machines), borrowed(runs), borrowed(links), borrowed(events)
    for code in codes:
        before = np.int64(-1)
        run = traces.run[code]
        while run >= 0:
            following = runs.next[run]
            held = _swept(run, now, machines, runs, links, events, count)
            if not held and not runs.done[run]:
                remove_run(code, before, run, traces, machines, runs, links, events, count)
            else:
                before = run
            run = following


@njit(cache=True, nogil=True)
def end_traces(codes, traces, machines, runs, links, events, count):
    """Silence has ended these traces."""
    for code in codes:
        end_trace(code, traces, machines, runs, links, events, count)


@njit(cache=True, nogil=True)
def drop_machines(codes, gone, traces, machines, runs, links, events, count):
    """Runs of machines that have been dropped go."""
    for code in codes:
        before = np.int64(-1)
        run = traces.run[code]
        while run >= 0:
            following = runs.next[run]
            if gone[runs.machine[run]]:
                remove_run(code, before, run, traces, machines, runs, links, events, count)
            else:
                before = run
            run = following


@njit(cache=True, nogil=True)
def finish(codes, serials, machine_first, machine_stop, traces, machines, runs, links, events, count):
    """These traces have had the first match of a pattern, whose machines are given: no machine of it takes their events
    any more."""
    for at in range(len(codes)):
        code = codes[at]
        if not traces.open[code] or traces.serial[code] != serials[at]:
            continue
        for m in range(machine_first[at], machine_stop[at]):
            before = np.int64(-1)
            run = traces.run[code]
            while run >= 0 and runs.machine[run] != m:
                before = run
                run = runs.next[run]
            if run >= 0:
                if runs.done[run]:
                    continue
                remove_run(code, before, run, traces, machines, runs, links, events, count)
            run = new_run(code, m, traces, machines, runs, count)
            runs.done[run] = 1
