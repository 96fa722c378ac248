"""The arrays of the pattern automaton, in groups, and the names of places in `count`.

Answer   Named tuples of arrays: what one pass over a slice of events reads and changes.
Limits   Plain data; `automaton.py` has the pass.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

#: Places in `count`.
(
    RUNS,
    FREE_RUN,
    BLOCKS,
    LINKS,
    FREE_LINK,
    SERIAL,
    PROBES,
    HELD,
    PEAK,
    VIOLATIONS,
    ENDED,
    OUT,
    GAPS,
    TAILS,
    MATCHING,
    OPEN_RUNS,
    PRUNED,
    NOTED_LINKS,
    NOTED_RUNS,
) = range(19)
COUNTS = 19
#: Settings of a machine.
OFF, CHECK, PRUNE = 0, 1, 2
#: Kinds of leaves.
EVENT, GAP, TAIL = 0, 1, 2


class Traces(NamedTuple):
    """By code of the trace's key."""

    open: np.ndarray
    whole: np.ndarray
    last: np.ndarray
    serial: np.ndarray
    seen: np.ndarray
    closed: np.ndarray
    run: np.ndarray


class PatternRuns(NamedTuple):
    next: np.ndarray
    #: The code of the run's trace; -1: there is no run of this number.
    trace: np.ndarray
    machine: np.ndarray
    reached: np.ndarray
    dead: np.ndarray
    done: np.ndarray
    block: np.ndarray
    #: Heads of chains, in blocks of one per leaf; `free_block[n]` begins the chain of free blocks of n.
    heads: np.ndarray
    free_block: np.ndarray
    #: Runs that have changed, each once: their flags, and their numbers in no order.
    is_noted: np.ndarray
    noted: np.ndarray


class Links(NamedTuple):
    """Chains of events, the newest first. `next` is the link of the next older event, `jump` one of a much older event
    of the same chain (-1: there is none), so that a search takes logarithmic time; `depth` says how long jumps are.

    `start` is the latest time at which a match with this event can have begun. It never falls from older to newer links.
    """

    #: -1: the link is free.
    event: np.ndarray
    next: np.ndarray
    jump: np.ndarray
    depth: np.ndarray
    start: np.ndarray
    #: As those of runs.
    is_noted: np.ndarray
    noted: np.ndarray


class Events(NamedTuple):
    refs: np.ndarray
    ts: np.ndarray
    rank: np.ndarray
    keys: np.ndarray
    nulls: np.ndarray


class Machines(NamedTuple):
    """Disjuncts, by number; leaves of machine m are first[m] to first[m] + size[m] - 1 in flat arrays, events before
    gaps."""

    first: np.ndarray
    size: np.ndarray
    #: How many of the leaves are events.
    leaves: np.ndarray
    whole: np.ndarray
    sinks: np.ndarray
    within: np.ndarray
    start: np.ndarray
    stop: np.ndarray
    mode: np.ndarray
    kind: np.ndarray
    #: All leaves before a leaf; the last ones of them; of a gap the first leaves after it.
    before: np.ndarray
    last_before: np.ndarray
    after: np.ndarray
    stored: np.ndarray
    #: Of a gap: whether its events must still be tested on columns; whether each of its events fills it, because it has
    #: no condition on other leaves; and the leaves that must have events before its own can be tested, which are those
    #: after it and those that its conditions name.
    open_gap: np.ndarray
    plain_gap: np.ndarray
    needs: np.ndarray
    order: np.ndarray
    #: Conditions of machine m: test_first[m] to test_first[m + 1] - 1.
    test_first: np.ndarray
    test_left: np.ndarray
    test_left_column: np.ndarray
    test_operator: np.ndarray
    test_right: np.ndarray
    test_right_column: np.ndarray
    #: Leaves that a filter slot stands for: target_first[slot] to target_first[slot + 1] - 1.
    target_first: np.ndarray
    target_machine: np.ndarray
    target_leaf: np.ndarray
    #: By type and machine.
    plus: np.ndarray
    minus: np.ndarray
    local: np.ndarray
    mask_first: np.ndarray
    mask_types: np.ndarray
    mask_whole: np.ndarray
    #: Bits of the types on which failing conditions of machines that prune depend.
    watched: np.ndarray
    #: The same number for all machines of a pattern of which each trace has one result, the first match that is found;
    #: -1: for the others.
    single: np.ndarray


class Monitor(NamedTuple):
    """By type: what may not have been seen, what it requires; clauses of several types; sets that never come
    together."""

    checks: bool
    end_after: int
    has_begin: bool
    begin: np.ndarray
    end: np.ndarray
    after: np.ndarray
    requires: np.ndarray
    clause_given: np.ndarray
    clause_needed: np.ndarray
    never: np.ndarray
    #: Types on a cycle of PRIOR.
    cyclic: np.ndarray


class EventSlice(NamedTuple):
    """Rows of the slice are events base, base + 1, …"""

    base: int
    code: np.ndarray
    type: np.ndarray
    pair_first: np.ndarray
    pair_slot: np.ndarray


class MatchOutput(NamedTuple):
    events: np.ndarray
    machine: np.ndarray
    row: np.ndarray
    serial: np.ndarray
    code: np.ndarray
    gap_match: np.ndarray
    gap_leaf: np.ndarray
    gap_event: np.ndarray
    tail_machine: np.ndarray
    tail_leaf: np.ndarray
    tail_row: np.ndarray
    tail_serial: np.ndarray
    violation_row: np.ndarray
    violation_seen: np.ndarray
    violation_whole: np.ndarray
    ended: np.ndarray


class Scratch(NamedTuple):
    accepted: np.ndarray
    touched: np.ndarray
    #: Runs that may have a match that ends with the event at hand, and the leaves that could be its last.
    matching_run: np.ndarray
    matching_sinks: np.ndarray
    #: By leaf: its event.
    assigned: np.ndarray
    #: By depth of the search: the link at hand, and the rank below which a candidate's gaps are filled.
    cursor: np.ndarray
    cut: np.ndarray
