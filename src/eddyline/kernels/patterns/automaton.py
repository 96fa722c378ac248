"""Event patterns, event by event: traces, runs and chains of events, in one pass over a slice in total order.

Answer   `process` takes the events of a slice. Per event: the trace it belongs to, the monitor, the step of every run,
         storing, then the matches that end here, then failing conditions, then the end of the trace.

             trace ─► run (trace, machine): reached, dead ─► heads ─► link ─► link ─► …      newest first
                                                              per leaf     │
                                                                           └► event

         A leaf accepts an event if all leaves before it are reached. Matches are enumerated by backtracking over
         chains, leaves that come last first, so that a leaf's events lie before the oldest of those that follow it.
State    The caller's arrays, in groups (`Traces`, `PatternRuns`, `Links`, `Events`); free runs, blocks and links are
         chained.
Limits   The caller has made room for what one slice can bring. When the output is full, `process` returns 1 and
         `resume` says where it goes on; it returns 0 at the end of the slice.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from eddyline.kernels.patterns.automaton_arrays import (
    ENDED,
    OFF,
    OUT,
    PRUNE,
    PRUNED,
    SERIAL,
    TAIL,
    TAILS,
    TODO,
    VIOLATIONS,
)
from eddyline.kernels.patterns.automaton_matches import enumerate_matches
from eddyline.kernels.patterns.automaton_monitor import breaks
from eddyline.kernels.patterns.automaton_runs import (
    dead_before,
    end_runs_of_single,
    end_trace,
    fails,
    is_over,
    masked,
    new_run,
    release,
    remove_run,
    step,
)
from eddyline.kernels.patterns.borrowing import borrowed

_ONE = np.uint64(1)
_ZERO = np.uint64(0)

#: Places in `resume`: the row at hand, whether its matches are being enumerated, the run, how many of its matches are
#: out, and whether there are any.
ROW, ENUMERATING, RUN, SKIP, SOME = range(5)
PLACES = 5


@njit(cache=True, nogil=True, forceinline=True)
def _opened(trace, t, ts, traces, machines, monitor, runs, links, events, out, count):
    """The trace of an event is open afterwards; a silence that was too long ended the one before."""
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
        out.violation_seen[place, :] = traces.seen[trace]
        out.violation_whole[place] = traces.whole[trace]
        count[VIOLATIONS] += 1
        return True, False
    word, bit = t >> 6, _ONE << np.uint64(t & 63)
    fresh = traces.seen[trace, word] & bit == _ZERO
    traces.seen[trace, word] |= bit
    traces.closed[trace, :] = closed
    return False, fresh


@njit(cache=True, nogil=True, forceinline=True)
def _collect(row, ts, trace, violation, traces, machines, rows, scratch, out, count):
    """The machines that have a leaf for the event, each with a word of leaves; returns how many."""
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
    """Every run of the trace takes the event, and machines without a run open one; runs that may have matches are
    noted."""
    count[TODO] = 0
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
        scratch.todo_run[count[TODO]] = run
        scratch.todo_sinks[count[TODO]] = sinks
        count[TODO] += 1


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
            runs.dead[run] |= machines.local[t, m]
            over = fails(trace, t, m, traces, machines) or is_over(m, runs.reached[run], runs.dead[run], machines)
            over = over or masked(trace, m, traces, machines)
        if over:
            remove_run(trace, before, run, traces, machines, runs, links, events, count)
            count[PRUNED] += 1
        else:
            before = run
        run = following


@njit(cache=True, nogil=True, forceinline=True)
def _process(rows, traces, runs, links, events, machines, monitor, scratch, out, count, resume):
    for row in range(resume[ROW], len(rows.code)):
        trace = rows.code[row]
        if trace < 0:
            continue
        event = rows.base + row
        t, ts = rows.type[row], events.ts[event]
        if not resume[ENUMERATING]:
            _opened(trace, t, ts, traces, machines, monitor, runs, links, events, out, count)
            violation, fresh = False, False
            if t >= 0 and monitor.checks:
                violation, fresh = _checked(trace, t, row, traces, monitor, out, count)
            hit = _collect(row, ts, trace, violation, traces, machines, rows, scratch, out, count)
            _steps(event, trace, t if fresh else -1, hit, traces, machines, runs, links, events, scratch, count)
            resume[RUN], resume[SKIP] = 0, 0
            # Failing conditions speak of the types seen: a violation and a type that was seen before change nothing.
            # What they say of a run that opens later is asked then.
            resume[ENUMERATING] = 1 if fresh and _is_watched(t, machines) else 2
        while resume[RUN] < count[TODO]:
            at, before = resume[RUN], count[OUT]
            found = enumerate_matches(
                scratch.todo_run[at], scratch.todo_sinks[at], event, row, trace, resume[SKIP],
                traces, machines, runs, links, events, scratch, out, count,
            )  # fmt: skip
            if count[OUT] > before:
                resume[SOME] = 1
            if found >= 0:
                resume[ROW], resume[SKIP] = row, found
                return 1
            if resume[SOME]:
                scratch.todo_sinks[at] = _ZERO
            resume[RUN], resume[SKIP], resume[SOME] = at + 1, 0, 0
        for at in range(count[TODO]):
            # Runs with a match settle after every run of the pattern saw the event.
            single = machines.single[runs.machine[scratch.todo_run[at]]]
            if scratch.todo_sinks[at] == _ZERO and single >= 0:
                end_runs_of_single(trace, single, traces, machines, runs, links, events, count)
        if resume[ENUMERATING] == 1:
            _prune(trace, t, traces, machines, runs, links, events, count)
        resume[ENUMERATING] = 0
        if t >= 0 and monitor.end[t]:
            end_trace(trace, traces, machines, runs, links, events, count)
            out.ended[count[ENDED]] = trace
            count[ENDED] += 1
    resume[ROW] = len(rows.code)
    return 0


@njit(cache=True, nogil=True)
def process(rows, traces, runs, links, events, machines, monitor, scratch, out, count, resume):
    """Take the events of a slice from `resume` on: 0 at its end, 1 where the output is full."""
    return _process(
        borrowed(rows), borrowed(traces), borrowed(runs), borrowed(links), borrowed(events), borrowed(machines), borrowed(monitor),
        borrowed(scratch), borrowed(out), count, resume,
    )  # fmt: skip


@njit(cache=True, nogil=True)
def end_traces(codes, traces, machines, runs, links, events, count):
    """Silence has ended these traces."""
    for code in codes:
        end_trace(code, traces, machines, runs, links, events, count)


@njit(cache=True, nogil=True)
def expire(codes, now, traces, machines, runs, links, events, count):
    """Events that no match still to come can reach, WITHIN their machine, leave their chains; runs without any go."""
    for code in codes:
        before = np.int64(-1)
        run = traces.run[code]
        while run >= 0:
            following = runs.next[run]
            m = runs.machine[run]
            edge = now - machines.within[m]
            held = False
            for leaf in range(machines.size[m]):
                at = runs.block[run] + leaf
                link = runs.heads[at]
                previous = np.int64(-1)
                while link >= 0 and events.ts[links.event[link]] >= edge:
                    held = True
                    previous = link
                    link = links.next[link]
                if previous < 0:
                    runs.heads[at] = -1
                else:
                    links.next[previous] = -1
                release(link, links, events, count)
            if not held and not runs.done[run]:
                remove_run(code, before, run, traces, machines, runs, links, events, count)
            else:
                before = run
            run = following


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
