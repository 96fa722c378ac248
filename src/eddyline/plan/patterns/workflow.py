"""Constraints that hold in every complete run of a workflow.

Answer   `constraints_of` computes every marking that the tokens of a net can reach. It keeps the markings from which the
         end can be reached, and finds the rules that hold on every path from the beginning to the end:

             ONCE(a)          no a can come after an a
             EXCLUSIVE(a, b)  neither can come after the other
             PRIOR(a, b)      no a can come after a b, though b can come after a
             REQUIRE(a, b)    without the steps of b there is no path through a
             BEGIN, END       what comes first only, what comes last only

Limits   Two tasks of one name are one type. A rule that follows from END is left out. At most 100,000 markings of 1,000
         tokens each: a loop that makes tokens without end is refused soon.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from eddyline.errors import PlanProblem
from eddyline.model.patterns.constraint import Rule
from eddyline.model.patterns.workflow import Net

#: Bounds of work: a net with more is refused.
MOST_MARKINGS = 100_000
MOST_TOKENS = 1_000

Marking = tuple[int, ...]


@dataclass(frozen=True)
class _Game:
    """The graph of markings: per marking its steps as (label, marking reached); the first marking is the beginning."""

    steps: list[list[tuple[str | None, int]]]
    ends: list[int]


def constraints_of(net: Net, most: int = MOST_MARKINGS) -> list[Rule]:
    """The rules that all complete runs keep.

    Raises:
        PlanProblem: there are more markings than that, or no run is complete.
    """
    game = _completed(_played(net, most))
    labels = sorted({label for steps in game.steps for label, _ in steps if label is not None})
    bit = {label: 1 << at for at, label in enumerate(labels)}
    later = _later(game, bit)
    follows = dict.fromkeys(labels, 0)
    for steps in game.steps:
        for label, to in steps:
            if label is not None:
                follows[label] |= later[to]
    first, last = _first(game), _last(game, later)
    begin = [a for a in labels if a in first]
    begins = bool(begin) and not any(follows[a] & bit[b] for a in labels for b in begin)
    # Every run ends with one of these, and nothing comes after any of them.
    ends = bool(last) and not any(follows[a] for a in last)
    end = sorted(last) if ends else []
    rules = [Rule("begin", tuple(begin))] if begins else []
    rules += [Rule("end", tuple(end))] if end else []
    for a in labels:
        if not follows[a] & bit[a] and a not in end:
            rules.append(Rule("once", (a,)))
    for a in labels:
        for b in labels:
            a_after_b, b_after_a = bool(follows[b] & bit[a]), bool(follows[a] & bit[b])
            if a < b and not a_after_b and not b_after_a and not (a in end and b in end):
                rules.append(Rule("exclusive", (a, b)))
            if a != b and not a_after_b and b_after_a and b not in end:
                rules.append(Rule("prior", (a, b)))
    for b in labels:
        rules += [Rule("require", (a, b)) for a in _without(game, b) if a != b]
    return rules


def _played(net: Net, most: int) -> _Game:
    inside = [net.within(scope) for scope in range(len(net.parent))]
    takers: dict[int, list[int]] = {}
    for number, step in enumerate(net.steps):
        takers.setdefault(step.takes[0], []).append(number)
    start: Marking = tuple(sorted(net.start))
    known = {start: 0}
    steps: list[list[tuple[str | None, int]]] = [[]]
    ahead = deque([start])
    while ahead:
        marking = ahead.popleft()
        at = known[marking]
        for number in sorted({n for place in set(marking) for n in takers.get(place, ())}):
            step = net.steps[number]
            tokens = list(marking)
            try:
                for place in step.takes:
                    tokens.remove(place)
            except ValueError:
                continue
            if step.waits_for >= 0 and any(place in inside[step.waits_for] for place in tokens):
                continue
            if step.clears >= 0:
                tokens = [place for place in tokens if place not in inside[step.clears]]
            reached: Marking = tuple(sorted([*tokens, *step.gives]))
            if reached not in known:
                if len(known) == most or len(reached) > MOST_TOKENS:
                    many = (
                        f"more than {most:,} markings"
                        if len(known) == most
                        else f"markings of more than {MOST_TOKENS:,}"
                    )
                    raise PlanProblem(
                        "the workflow has too many states",
                        detail=f"{many} of its tokens can be reached",
                        hint="write its constraints by hand, or split parallel branches into sub-processes of their own files",
                    )
                known[reached] = len(steps)
                steps.append([])
                ahead.append(reached)
            steps[at].append((step.label, known[reached]))
    return _Game(steps, [number for marking, number in known.items() if not marking])


def _completed(game: _Game) -> _Game:
    """The part of the graph from which an end can be reached."""
    good = _reached(game.ends, _reversed([[to for _, to in steps] for steps in game.steps]))
    if 0 not in good:
        raise PlanProblem(
            "no run of the workflow comes to an end", hint="look for gateways that split one way and join another"
        )
    return _Game(
        [[s for s in steps if s[1] in good] if at in good else [] for at, steps in enumerate(game.steps)], game.ends
    )


def _reversed(edges: list[list[int]]) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in edges]
    for at, targets in enumerate(edges):
        for to in targets:
            found[to].append(at)
    return found


def _reached(begin: list[int], edges: list[list[int]]) -> set[int]:
    found, ahead = set(begin), list(begin)
    while ahead:
        for to in edges[ahead.pop()]:
            if to not in found:
                found.add(to)
                ahead.append(to)
    return found


def _later(game: _Game, bit: dict[str, int]) -> list[int]:
    """Per marking the labels that can still come, as bits."""
    later = [0] * len(game.steps)
    back = _reversed([[to for _, to in steps] for steps in game.steps])
    for at, steps in enumerate(game.steps):
        for label, _ in steps:
            later[at] |= bit[label] if label is not None else 0
    # A marking is visited again after the labels of one behind it have grown; late markings come first.
    ahead = deque(range(len(later) - 1, -1, -1))
    waiting = [True] * len(later)
    while ahead:
        at = ahead.popleft()
        waiting[at] = False
        for before in back[at]:
            grown = later[before] | later[at]
            if grown != later[before]:
                later[before] = grown
                if not waiting[before]:
                    waiting[before] = True
                    ahead.append(before)
    return later


def _first(game: _Game) -> set[str]:
    """Labels that some run begins with."""
    silent = [[to for label, to in steps if label is None] for steps in game.steps]
    return {label for at in _reached([0], silent) for label, _ in game.steps[at] if label is not None}


def _last(game: _Game, later: list[int]) -> set[str]:
    """Labels that some run ends with."""
    silent = [[to for label, to in steps if label is None] for steps in game.steps]
    closing = _reached(game.ends, _reversed(silent))
    return {label for steps in game.steps for label, to in steps if label is not None and to in closing}


def _without(game: _Game, b: str) -> list[str]:
    """The labels that no complete run has without b."""
    forward = [[to for label, to in steps if label != b] for steps in game.steps]
    here, there = _reached([0], forward), _reached(game.ends, _reversed(forward))
    possible = {label for at in here for label, to in game.steps[at] if label not in (None, b) and to in there}
    everything = {label for steps in game.steps for label, _ in steps if label is not None}
    return sorted(label for label in everything - possible if label is not None)
