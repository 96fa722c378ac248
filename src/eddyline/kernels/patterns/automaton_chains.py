"""Chains of the events of a leaf, the newest first: pushed, searched, linked anew.

Answer   `newest_below` finds the newest link below a rank in logarithmic time. Every link has a jump to a much older
         one; jumps are chosen as in a skew-binary counter, by the depths of the links (Myers, 1983).
State    The caller's `Links`; free links are chained.
Limits   Ranks fall from link to link. A jump of -1 only makes a search longer.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from eddyline.kernels.patterns.automaton_arrays import FREE_LINK, HELD, LINKS, NOTED_LINKS, PEAK, PROBES


@njit(cache=True, nogil=True, forceinline=True)
def note_link(link, links, count):
    """A snapshot has to write this link."""
    if not links.is_noted[link]:
        links.is_noted[link] = True
        links.noted[count[NOTED_LINKS]] = link
        count[NOTED_LINKS] += 1


@njit(cache=True, nogil=True, forceinline=True)
def _set_jump(link, links):
    """The jump and depth of a link, from those of the next older one."""
    older = links.next[link]
    links.jump[link] = older
    links.depth[link] = 1
    if older < 0:
        return
    links.depth[link] += links.depth[older]
    middle = links.jump[older]
    middle_depth = links.depth[middle] if middle >= 0 else 0
    end = links.jump[middle] if middle >= 0 else -1
    end_depth = links.depth[end] if end >= 0 else 0
    if links.depth[older] - middle_depth == middle_depth - end_depth:
        links.jump[link] = end


@njit(cache=True, nogil=True, forceinline=True)
def push(head, event, start, runs, links, events, count):
    """Put an event before the others of a chain."""
    link = count[FREE_LINK]
    if link >= 0:
        count[FREE_LINK] = links.next[link]
    else:
        link = count[LINKS]
        count[LINKS] += 1
    links.event[link] = event
    links.next[link] = runs.heads[head]
    links.start[link] = start
    _set_jump(link, links)
    runs.heads[head] = link
    note_link(link, links, count)
    if events.refs[event] == 0:
        count[HELD] += 1
        count[PEAK] = max(count[PEAK], count[HELD])
    events.refs[event] += 1


@njit(cache=True, nogil=True, forceinline=True)
def release_link(link, links, events, count):
    """Put back a link; an event without a link is not held any more."""
    event = links.event[link]
    events.refs[event] -= 1
    if events.refs[event] == 0:
        count[HELD] -= 1
    note_link(link, links, count)
    links.event[link] = -1
    links.next[link] = count[FREE_LINK]
    count[FREE_LINK] = link


@njit(cache=True, nogil=True, forceinline=True)
def release(link, links, events, count):
    """Put back a link and those behind it."""
    while link >= 0:
        following = links.next[link]
        release_link(link, links, events, count)
        link = following


@njit(cache=True, nogil=True, forceinline=True)
def newest_below(link, rank, links, events, count):
    """The newest link of a chain whose event has a smaller rank; -1: there is none."""
    while link >= 0 and events.rank[links.event[link]] >= rank:
        count[PROBES] += 1
        jump = links.jump[link]
        if jump >= 0 and events.rank[links.event[jump]] >= rank:
            link = jump
        else:
            link = links.next[link]
    return link


@njit(cache=True, nogil=True, forceinline=True)
def set_jumps(head, links):
    """Give every link of a chain its jump, after some have left it."""
    newer, link = np.int64(-1), head
    while link >= 0:
        older = links.next[link]
        links.next[link] = newer
        newer, link = link, older
    older, link = np.int64(-1), newer
    while link >= 0:
        newer = links.next[link]
        links.next[link] = older
        _set_jump(link, links)
        older, link = link, newer


@njit(cache=True, nogil=True)
def join_chains(numbers, heads, traces, runs, links, is_held):
    """After a restart: give each trace its runs, which have these numbers, and all links of their chains the jumps; flag
    these links."""
    for run in numbers:
        runs.next[run] = traces.run[runs.trace[run]]
        traces.run[runs.trace[run]] = run
    for head in heads:
        link = head
        while link >= 0:
            is_held[link] = True
            link = links.next[link]
        set_jumps(head, links)
