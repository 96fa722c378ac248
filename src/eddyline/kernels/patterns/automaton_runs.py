"""Runs of machines over traces: opened, stepped, found to be over, taken apart.

Answer   A run has the bits of its reached leaves, those of its dead leaves, and a chain of events per leaf. A leaf takes
         an event only if all leaves before it have events that a match with this event can contain: in order, WITHIN
         the pattern, and with no event in a NOT between them. Failing conditions are bits by type and machine; what the
         types seen so far say of a machine without a run is worked out when it would open one.
State    The caller's arrays; free runs, blocks of heads and links are chained.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from eddyline.kernels.patterns.automaton_arrays import (
    BLOCKS,
    EVENT,
    FREE_RUN,
    NOTED_RUNS,
    OPEN_RUNS,
    PROBES,
    RUNS,
    TAIL,
)
from eddyline.kernels.patterns.automaton_chains import push, release
from eddyline.kernels.patterns.automaton_monitor import is_within

_ONE = np.uint64(1)
_ZERO = np.uint64(0)


@njit(cache=True, nogil=True, forceinline=True)
def note_run(run, runs, count):
    """A snapshot has to write this run."""
    if not runs.is_noted[run]:
        runs.is_noted[run] = True
        runs.noted[count[NOTED_RUNS]] = run
        count[NOTED_RUNS] += 1


@njit(cache=True, nogil=True, forceinline=True)
def free_run(run, machines, runs, links, events, count):
    """Take a run's chains apart and put it back; the caller has taken it out of its trace."""
    m = runs.machine[run]
    size = machines.size[m]
    block = runs.block[run]
    for leaf in range(size):
        release(runs.heads[block + leaf], links, events, count)
    runs.heads[block] = runs.free_block[size]
    runs.free_block[size] = block
    note_run(run, runs, count)
    runs.trace[run] = -1
    runs.next[run] = count[FREE_RUN]
    count[FREE_RUN] = run
    count[OPEN_RUNS] -= 1


@njit(cache=True, nogil=True, forceinline=True)
def remove_run(trace, before, run, traces, machines, runs, links, events, count):
    """Take a run out of its trace, where it stands behind the run `before` (-1: it is the first), and free it."""
    if before < 0:
        traces.run[trace] = runs.next[run]
    else:
        runs.next[before] = runs.next[run]
    free_run(run, machines, runs, links, events, count)


@njit(cache=True, nogil=True, forceinline=True)
def new_run(trace, m, traces, machines, runs, count):
    run = count[FREE_RUN]
    if run >= 0:
        count[FREE_RUN] = runs.next[run]
    else:
        run = count[RUNS]
        count[RUNS] += 1
    size = machines.size[m]
    block = runs.free_block[size]
    if block >= 0:
        runs.free_block[size] = runs.heads[block]
    else:
        block = count[BLOCKS]
        count[BLOCKS] += size
    for leaf in range(size):
        runs.heads[block + leaf] = -1
    note_run(run, runs, count)
    runs.trace[run] = trace
    runs.machine[run] = m
    runs.block[run] = block
    runs.reached[run] = _ZERO
    runs.dead[run] = _ZERO
    runs.done[run] = 0
    runs.next[run] = traces.run[trace]
    traces.run[trace] = run
    count[OPEN_RUNS] += 1
    return run


@njit(cache=True, nogil=True, forceinline=True)
def end_trace(trace, traces, machines, runs, links, events, count):
    run = traces.run[trace]
    while run >= 0:
        following = runs.next[run]
        free_run(run, machines, runs, links, events, count)
        run = following
    traces.run[trace] = -1
    traces.open[trace] = 0


@njit(cache=True, nogil=True, forceinline=True)
def end_runs_of_single(trace, single, traces, machines, runs, links, events, count):
    """The trace has had its one result of a pattern: the pattern's runs hold no event and take none."""
    run = traces.run[trace]
    while run >= 0:
        m = runs.machine[run]
        if machines.single[m] == single and not runs.done[run]:
            for leaf in range(machines.size[m]):
                release(runs.heads[runs.block[run] + leaf], links, events, count)
                runs.heads[runs.block[run] + leaf] = -1
            note_run(run, runs, count)
            runs.done[run] = 1
        run = runs.next[run]


@njit(cache=True, nogil=True, forceinline=True)
def is_over(m, reached, dead, machines):
    whole = machines.whole[m]
    if ~reached & dead & whole != _ZERO:
        return True
    return reached & whole == whole and machines.sinks[m] & ~dead == _ZERO


@njit(cache=True, nogil=True, forceinline=True)
def masked(trace, m, traces, machines):
    for c in range(machines.mask_first[m], machines.mask_first[m + 1]):
        if (traces.whole[trace] or not machines.mask_whole[c]) and is_within(
            machines.mask_types[c], traces.closed[trace]
        ):
            return True
    return False


@njit(cache=True, nogil=True, forceinline=True)
def fails(trace, t, m, traces, machines):
    """Whether type t, just seen, ends the disjunct whatever its run has reached."""
    plus = machines.plus[t, m]
    whole = traces.whole[trace]
    if plus == 1 or (plus == 2 and whole):
        return True
    if whole:
        for w in range(machines.minus.shape[2]):
            if machines.minus[t, m, w] & ~traces.seen[trace, w] != _ZERO:
                return True
    return False


@njit(cache=True, nogil=True, forceinline=True)
def dead_before(trace, skipped, m, traces, machines):
    """What the types seen so far say of a machine without a run: whether it is over, and its dead leaves."""
    dead = _ZERO
    for w in range(traces.seen.shape[1]):
        word = traces.seen[trace, w] & machines.watched[w]
        t = w * 64
        while word != _ZERO:
            if word & _ONE and t != skipped:
                if fails(trace, t, m, traces, machines):
                    return True, dead
                dead |= machines.local[t, m]
            word >>= _ONE
            t += 1
    return dead & machines.whole[m] != _ZERO or masked(trace, m, traces, machines), dead


@njit(cache=True, nogil=True, forceinline=True)
def _newest_before(head, event, runs, links):
    """The newest link of a chain that does not hold this event itself."""
    link = runs.heads[head]
    return links.next[link] if link >= 0 and links.event[link] == event else link


@njit(cache=True, nogil=True, forceinline=True)
def _newest_rank(gap, block, event, m, machines, runs, links, events):
    """The newest rank among the events that leaves directly before a gap have; -1: they have none."""
    newest = np.int64(-1)
    for leaf in range(machines.leaves[m]):
        if (machines.last_before[gap] >> np.uint64(leaf)) & _ONE != _ZERO:
            link = _newest_before(block + leaf, event, runs, links)
            if link >= 0:
                newest = max(newest, events.rank[links.event[link]])
    return newest


@njit(cache=True, nogil=True, forceinline=True)
def _latest_start(run, leaf, event, m, machines, runs, links, events):
    """Whether a match can have this event at `leaf`, as far as order, time and gaps without conditions say; and the
    latest time at which it can have begun."""
    first, block = machines.first[m], runs.block[run]
    bit = _ONE << np.uint64(leaf)
    start = events.ts[event]
    for other in range(machines.leaves[m]):
        if (machines.last_before[first + leaf] >> np.uint64(other)) & _ONE != _ZERO:
            link = _newest_before(block + other, event, runs, links)
            if link < 0:
                return False, start
            start = min(start, links.start[link])
    for place in range(machines.leaves[m], machines.size[m]):
        gap = first + place
        if machines.plain_gap[gap] and machines.after[gap] == bit and runs.heads[block + place] >= 0:
            filled = events.rank[links.event[runs.heads[block + place]]]
            if _newest_rank(gap, block, event, m, machines, runs, links, events) < filled:
                return False, start
    return start >= events.ts[event] - machines.within[m], start


@njit(cache=True, nogil=True, forceinline=True)
def _fills_anew(run, place, event, m, machines, runs, links, events):
    """Whether an event of a gap can fill it where no older one does: there is an event before the gap, and, where any
    event fills it, not only events that an older one of the gap follows."""
    block = runs.block[run]
    gap = machines.first[m] + place
    newest = _newest_rank(gap, block, event, m, machines, runs, links, events)
    head = runs.heads[block + place]
    if newest < 0 or head < 0 or not machines.plain_gap[gap]:
        return newest >= 0
    return newest >= events.rank[links.event[head]]


@njit(cache=True, nogil=True, forceinline=True)
def step(run, accepts, event, machines, runs, links, events, count):
    """The leaves of a run that accept an event: stored, marked as reached; returns those that could end a match."""
    m = runs.machine[run]
    first = machines.first[m]
    taken = _ZERO
    for leaf in range(machines.size[m]):
        bit = _ONE << np.uint64(leaf)
        if accepts & bit == _ZERO:
            continue
        count[PROBES] += 1
        at = first + leaf
        if machines.kind[at] == TAIL:
            continue
        start = events.ts[event]
        if machines.kind[at] == EVENT:
            possible, start = _latest_start(run, leaf, event, m, machines, runs, links, events)
            if not possible:
                continue
            taken |= bit
        elif not _fills_anew(run, leaf, event, m, machines, runs, links, events):
            continue
        if machines.stored[at]:
            push(runs.block[run] + leaf, event, start, runs, links, events, count)
            note_run(run, runs, count)
    if taken & ~runs.reached[run] != _ZERO:
        note_run(run, runs, count)
        runs.reached[run] |= taken
    return taken & machines.sinks[m]
