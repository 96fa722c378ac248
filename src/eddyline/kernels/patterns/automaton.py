"""Event patterns, event by event: traces, runs and chains of events, in one pass over a slice in total order.

Answer   `process` takes the events of a slice. Per event: the trace it belongs to, the monitor, the step of every run,
         storing, then the matches that end here, then failing conditions, then the end of the trace. The time is
         bounded by the events and matches, times the logarithm of the events that a run holds, where patterns have no
         conditions between names.

             trace ─► run (trace, machine): reached, dead ─► heads ─► link ─► link ─► …      newest first
                                                              per leaf     │
                                                                           └► event

State    The caller's arrays, in groups (`Traces`, `PatternRuns`, `Links`, `Events`); free runs, blocks and links are
         chained.
Limits   The caller has made room for what one slice can bring. `process` may return before the end of the slice;
         `resume` says where it goes on.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from eddyline.kernels.patterns.automaton_arrays import (
    ENDED,
    MATCHING,
    OFF,
    OUT,
    PROBES,
    PRUNE,
    PRUNED,
    SERIAL,
    TAIL,
    TAILS,
    VIOLATIONS,
)
from eddyline.kernels.patterns.automaton_matches import (
    DEPTH,
    DONE,
    ENUMERATING,
    FORCED,
    PAUSED,
    ROW,
    RUN,
    SOME,
    STEPS,
    enumerate_matches,
)
from eddyline.kernels.patterns.automaton_monitor import breaks
from eddyline.kernels.patterns.automaton_runs import (
    dead_before,
    end_runs_of_single,
    end_trace,
    fails,
    is_over,
    masked,
    new_run,
    note_run,
    remove_run,
    step,
)
from eddyline.kernels.patterns.borrowing import borrowed
from eddyline.kernels.raw import put

_ONE = np.uint64(1)
_ZERO = np.uint64(0)


@njit(cache=True, nogil=True, forceinline=True)
def _opened(trace, t, ts, traces, machines, monitor, runs, links, events, out, count):
    """Open the trace of an event. A silence that was too long ends the trace before it."""
    if traces.open[trace] and monitor.end_after >= 0 and ts > traces.last[trace] + monitor.end_after:
        end_trace(trace, traces, machines, runs, links, events, count)
    if not traces.open[trace]:
        traces.open[trace] = 1
        traces.serial[trace] = count[SERIAL]
        count[SERIAL] += 1
        traces.whole[trace] = not monitor.has_begin or (t >= 0 and monitor.begin[t])
        traces.seen[trace, :] = _ZERO
        traces.closed[trace, :] = _ZERO
    traces.last[trace] = ts


@njit(cache=True, nogil=True, forceinline=True)
def _checked(trace, t, row, traces, monitor, out, count):
    """Whether the event is a violation, which is then put out; and whether its type is new to the trace."""
    broken, closed = breaks(monitor, traces.seen[trace], traces.closed[trace], t, traces.whole[trace])
    if broken:
        place = count[VIOLATIONS]
        out.violation_row[place] = row
        put(out.violation_seen[place], 0, traces.seen[trace])
        out.violation_whole[place] = traces.whole[trace]
        count[VIOLATIONS] += 1
        return True, False
    word, bit = t >> 6, _ONE << np.uint64(t & 63)
    fresh = traces.seen[trace, word] & bit == _ZERO
    traces.seen[trace, word] |= bit
    put(traces.closed[trace], 0, closed)
    return False, fresh


@njit(cache=True, nogil=True, forceinline=True)
def _collect(row, ts, trace, violation, traces, machines, rows, scratch, out, count):
    """Note the machines of which a leaf takes the event, and the bits of these leaves; returns how many machines."""
    machines_hit = 0
    for p in range(rows.pair_first[row], rows.pair_first[row + 1]):
        slot = rows.pair_slot[p]
        for at in range(machines.target_first[slot], machines.target_first[slot + 1]):
            m, leaf = machines.target_machine[at], machines.target_leaf[at]
            if ts <= machines.start[m] or ts > machines.stop[m] or (violation and machines.mode[m] != OFF):
                continue
            if machines.kind[machines.first[m] + leaf] == TAIL:
                place = count[TAILS]
                out.tail_machine[place], out.tail_leaf[place] = m, leaf
                out.tail_row[place], out.tail_serial[place] = row, traces.serial[trace]
                count[TAILS] += 1
                continue
            if scratch.accepted[m] == _ZERO:
                scratch.touched[machines_hit] = m
                machines_hit += 1
            scratch.accepted[m] |= _ONE << np.uint64(leaf)
    return machines_hit


@njit(cache=True, nogil=True, forceinline=True)
def _steps(event, trace, fresh_type, hit, traces, machines, runs, links, events, scratch, count):
    """Every run of the trace takes the event. Machines without a run open one. Runs that may have a match are put into
    `scratch.matching_run`."""
    count[MATCHING] = 0
    if hit == 0:
        return
    run = traces.run[trace]
    left = hit
    while run >= 0 and left > 0:
        m = runs.machine[run]
        accepts = scratch.accepted[m]
        if accepts != _ZERO:
            scratch.accepted[m] = _ZERO
            left -= 1
            if not runs.done[run]:
                _take(run, accepts, event, machines, runs, links, events, scratch, count)
        run = runs.next[run]
    for at in range(hit):
        m = scratch.touched[at]
        accepts = scratch.accepted[m]
        if accepts == _ZERO:
            continue
        scratch.accepted[m] = _ZERO
        first = machines.first[m]
        opens = False
        for leaf in range(machines.size[m]):
            if (
                (accepts >> np.uint64(leaf)) & _ONE
                and machines.kind[first + leaf] == 0
                and machines.before[first + leaf] == _ZERO
            ):
                opens = True
        if not opens:
            continue
        dead = _ZERO
        if machines.mode[m] == PRUNE:
            over, dead = dead_before(trace, fresh_type, m, traces, machines)
            if over:
                continue
        run = new_run(trace, m, traces, machines, runs, count)
        runs.dead[run] = dead
        _take(run, accepts, event, machines, runs, links, events, scratch, count)


@njit(cache=True, nogil=True, forceinline=True)
def _take(run, accepts, event, machines, runs, links, events, scratch, count):
    sinks = step(run, accepts, event, machines, runs, links, events, count)
    whole = machines.whole[runs.machine[run]]
    if sinks != _ZERO and runs.reached[run] & whole == whole:
        scratch.matching_run[count[MATCHING]] = run
        scratch.matching_sinks[count[MATCHING]] = sinks
        count[MATCHING] += 1


@njit(cache=True, nogil=True, inline="always")
def _is_watched(t, machines):
    return len(machines.mask_whole) > 0 or (machines.watched[t >> 6] >> np.uint64(t & 63)) & _ONE != _ZERO


@njit(cache=True, nogil=True, forceinline=True)
def _prune(trace, t, traces, machines, runs, links, events, count):
    """Runs that the event proves to be over go."""
    before = np.int64(-1)
    run = traces.run[trace]
    while run >= 0:
        following = runs.next[run]
        m = runs.machine[run]
        over = False
        if machines.mode[m] == PRUNE and not runs.done[run]:
            if machines.local[t, m] & ~runs.dead[run] != _ZERO:
                note_run(run, runs, count)
                runs.dead[run] |= machines.local[t, m]
            over = fails(trace, t, m, traces, machines) or is_over(m, runs.reached[run], runs.dead[run], machines)
            over = over or masked(trace, m, traces, machines)
        if over:
            remove_run(trace, before, run, traces, machines, runs, links, events, count)
            count[PRUNED] += 1
        else:
            before = run
        run = following


@njit(cache=True, nogil=True)
def process(rows, traces, runs, links, events, machines, monitor, scratch, out, count, resume):
    """Take the events of a slice from `resume` on: `DONE` at its end, `FULL` where the output is full, `PAUSED` when it has
    visited as many events as `resume` says."""
    rows, traces, runs, links = borrowed(rows), borrowed(traces), borrowed(runs), borrowed(links)
    events, machines, monitor = borrowed(events), borrowed(machines), borrowed(monitor)
    scratch, out = borrowed(scratch), borrowed(out)
    pause = count[PROBES] + resume[STEPS]
    for row in range(resume[ROW], len(rows.code)):
        trace = rows.code[row]
        if trace < 0:
            continue
        event = rows.base + row
        t, ts = rows.type[row], events.ts[event]
        if not resume[ENUMERATING]:
            if count[PROBES] > pause:
                resume[ROW] = row
                return PAUSED
            _opened(trace, t, ts, traces, machines, monitor, runs, links, events, out, count)
            violation, fresh = False, False
            if t >= 0 and monitor.checks:
                violation, fresh = _checked(trace, t, row, traces, monitor, out, count)
            hit = _collect(row, ts, trace, violation, traces, machines, rows, scratch, out, count)
            _steps(event, trace, t if fresh else -1, hit, traces, machines, runs, links, events, scratch, count)
            resume[RUN], resume[FORCED], resume[DEPTH] = 0, 0, -1
            # Failing conditions depend on the types seen: a violation, and a type that was seen before, change none.
            # `dead_before` tests them for a run that opens later.
            resume[ENUMERATING] = 1 if fresh and _is_watched(t, machines) else 2
        while resume[RUN] < count[MATCHING]:
            at, before = resume[RUN], count[OUT]
            ended = enumerate_matches(
                scratch.matching_run[at], scratch.matching_sinks[at], event, row, trace, pause,
                traces, machines, runs, links, events, scratch, out, count, resume,
            )  # fmt: skip
            if count[OUT] > before:
                resume[SOME] = 1
            if ended != DONE:
                resume[ROW] = row
                return ended
            if resume[SOME]:
                scratch.matching_sinks[at] = _ZERO
            resume[RUN], resume[SOME] = at + 1, 0
        for at in range(count[MATCHING]):
            # Runs with a match settle after every run of the pattern saw the event.
            single = machines.single[runs.machine[scratch.matching_run[at]]]
            if scratch.matching_sinks[at] == _ZERO and single >= 0:
                end_runs_of_single(trace, single, traces, machines, runs, links, events, count)
        if resume[ENUMERATING] == 1:
            _prune(trace, t, traces, machines, runs, links, events, count)
        resume[ENUMERATING] = 0
        if t >= 0 and monitor.end[t]:
            end_trace(trace, traces, machines, runs, links, events, count)
            out.ended[count[ENDED]] = trace
            count[ENDED] += 1
    resume[ROW] = len(rows.code)
    return DONE
