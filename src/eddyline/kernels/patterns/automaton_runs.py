"""Runs of machines over traces: opened, stepped, found to be over, taken apart.

Answer   A run has one word of reached leaves, one of dead leaves, and a chain of events per leaf. Failing conditions
         are words by type and machine; what the types seen so far say of a machine without a run is worked out when it
         would open one.
State    The caller's arrays; free runs, blocks of heads and links are chained.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from eddyline.kernels.patterns.automaton_arrays import (
    BLOCKS,
    EVENT,
    FREE_LINK,
    FREE_RUN,
    HELD,
    LINKS,
    OPEN_RUNS,
    PEAK,
    PROBES,
    RUNS,
    TAIL,
)
from eddyline.kernels.patterns.automaton_monitor import is_within

_ONE = np.uint64(1)
_ZERO = np.uint64(0)


@njit(cache=True, nogil=True, forceinline=True)
def release(link, links, events, count):
    """Put back a link and those behind it; events without a link are not held any more."""
    while link >= 0:
        event = links.event[link]
        events.refs[event] -= 1
        if events.refs[event] == 0:
            count[HELD] -= 1
        following = links.next[link]
        links.next[link] = count[FREE_LINK]
        count[FREE_LINK] = link
        link = following


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
def step(run, accepts, event, machines, runs, links, events, count):
    """The leaves of a run that accept an event: stored, marked as reached; returns those that could end a match."""
    m = runs.machine[run]
    first = machines.first[m]
    reached = runs.reached[run]
    taken = _ZERO
    for leaf in range(machines.size[m]):
        bit = _ONE << np.uint64(leaf)
        if accepts & bit == _ZERO:
            continue
        count[PROBES] += 1
        at = first + leaf
        if machines.kind[at] == TAIL or machines.before[at] & ~reached != _ZERO:
            continue
        if machines.kind[at] == EVENT:
            taken |= bit
        if machines.stored[at]:
            link = count[FREE_LINK]
            if link >= 0:
                count[FREE_LINK] = links.next[link]
            else:
                link = count[LINKS]
                count[LINKS] += 1
            links.event[link] = event
            links.next[link] = runs.heads[runs.block[run] + leaf]
            runs.heads[runs.block[run] + leaf] = link
            if events.refs[event] == 0:
                count[HELD] += 1
                count[PEAK] = max(count[PEAK], count[HELD])
            events.refs[event] += 1
    runs.reached[run] = reached | taken
    return taken & machines.sinks[m]
