"""Event patterns over whole inputs: every assignment of events to names is tried, in plain loops.

Answer   `cut` splits rows into traces and finds violations, event by event, from the definitions. `matches` tries every
         assignment of one trace. `answer` puts both together: the results of one query in the order of delivery.
Limits   Exponential in the number of names. Expressions and rules are this module's own plain data, so that it shares
         no code with the engine but the words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Leaf:
    type: Any
    name: str
    test: Callable[[Row], bool] = field(default=lambda row: True, compare=False)


@dataclass(frozen=True)
class Group:
    """`operator` is SEQ, AND, OR or NOT."""

    operator: str
    members: tuple[Leaf | Group, ...]


Node = Leaf | Group


@dataclass(frozen=True)
class Condition:
    """One conjunct of WHERE: the names it reads, and whether it is true of their rows."""

    names: frozenset[str]
    test: Callable[[Mapping[str, Row]], bool]


@dataclass(frozen=True)
class Query:
    expression: Node
    where: tuple[Condition, ...] = ()
    within: int | None = None
    first: bool = False


@dataclass(frozen=True)
class Match:
    """`bound` maps names to places in the total order; `last` is the place of the newest event, `due` a NOT's that
    stands last."""

    bound: Mapping[str, int]
    ts: int
    last: int
    waits: bool = False


# -- assignments


@dataclass(frozen=True)
class _Partial:
    bound: tuple[tuple[str, int], ...]
    #: (leaf, place after which, place before which; None: until the end of WITHIN)
    gaps: tuple[tuple[Leaf, int, int | None], ...] = ()

    @property
    def places(self) -> list[int]:
        return [place for _, place in self.bound]


def _partials(node: Node, rows: Sequence[Row], places: Sequence[int], kind: str) -> Iterator[_Partial]:
    if isinstance(node, Leaf):
        for place in places:
            if rows[place][kind] == node.type and node.test(rows[place]):
                yield _Partial(((node.name, place),))
    elif node.operator == "OR":
        for member in node.members:
            yield from _partials(member, rows, places, kind)
    elif node.operator == "AND":
        for parts in product(*(list(_partials(m, rows, places, kind)) for m in node.members)):
            yield _Partial(sum((p.bound for p in parts), ()), sum((p.gaps for p in parts), ()))
    else:
        yield from _sequences(node, rows, places, kind)


def _sequences(node: Group, rows: Sequence[Row], places: Sequence[int], kind: str) -> Iterator[_Partial]:
    choices: list[list[Any]] = []
    for member in node.members:
        if isinstance(member, Group) and member.operator == "NOT":
            choices.append([member.members[0]])
        else:
            choices.append(list(_partials(member, rows, places, kind)))
    for parts in product(*choices):
        good = True
        end = -1
        for part in parts:
            if isinstance(part, _Partial):
                good = good and min(part.places) > end
                end = max(part.places)
        if not good:
            continue
        gaps: list[Any] = []
        for at, part in enumerate(parts):
            if isinstance(part, _Partial):
                gaps += part.gaps
                continue
            before = [max(p.places) for p in parts[:at] if isinstance(p, _Partial)]
            after = [min(p.places) for p in parts[at + 1 :] if isinstance(p, _Partial)]
            gaps.append((part, max(before), min(after) if after else None))
        yield _Partial(sum((p.bound for p in parts if isinstance(p, _Partial)), ()), tuple(gaps))


def matches(query: Query, rows: Sequence[Row], trace: Sequence[int], kind: str, time: str) -> list[Match]:
    """The matches among the rows at these places, each map once with its smallest `_ts`."""
    found: dict[tuple[tuple[str, int], ...], Match] = {}
    for part in _partials(query.expression, rows, trace, kind):
        bound = dict(part.bound)
        first, last = min(part.places), max(part.places)
        begin, end = rows[first][time], rows[last][time]
        if query.within is not None and end - begin > query.within:
            continue
        named = {name: rows[place] for name, place in bound.items()}
        if not all(c.test(named) for c in query.where if c.names <= set(bound)):
            continue
        waits = any(before is None for _, _, before in part.gaps)
        if any(_fills(query, gap, rows, trace, kind, time, named, begin) for gap in part.gaps):
            continue
        match = Match(bound, begin + query.within if waits and query.within is not None else end, last, waits)
        key = tuple(sorted(bound.items()))
        if key not in found or match.ts < found[key].ts or (match.ts == found[key].ts and not waits):
            found[key] = match
    return list(found.values())


def _fills(
    query: Query,
    gap: tuple[Leaf, int, int | None],
    rows: Sequence[Row],
    trace: Sequence[int],
    kind: str,
    time: str,
    named: Mapping[str, Row],
    begin: int,
) -> bool:
    """Whether some event lies in a gap and fulfils the conditions that name it."""
    leaf, after, before = gap
    for place in trace:
        row = rows[place]
        if row[kind] != leaf.type or not leaf.test(row) or place <= after:
            continue
        if before is not None and place >= before:
            continue
        if before is None and query.within is not None and row[time] > begin + query.within:
            continue
        everything = {**named, leaf.name: row}
        if all(c.test(everything) for c in query.where if leaf.name in c.names and c.names <= set(everything)):
            return True
    return False


# -- traces


@dataclass
class Trace:
    """Places of the rows that came, those of them without violation, whether an END was among them."""

    places: list[int] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)
    whole: bool = True
    last: int = 0
    ended: bool = False


@dataclass(frozen=True)
class Cut:
    traces: list[Trace]
    #: Places of violations.
    violations: list[int]


def closure(types: set[Any], rules: Sequence[Any]) -> set[Any]:
    found = set(types)
    while True:
        more = {
            r.types[-1] for r in rules if r.kind in ("require", "if") and not r.negated and set(r.types[:-1]) <= found
        } - found
        if not more:
            return found
        found |= more


def breaks(seen: set[Any], t: Any, rules: Sequence[Any], whole: bool) -> bool:
    """Whether event t is a violation after the accepted types `seen`, from the four definitions."""
    priors = {r.types if r.kind == "prior" else (r.types[0], r.types[0]) for r in rules if r.kind in ("prior", "once")}
    if any((t, u) in priors for u in seen):
        return True
    now = seen | {t}
    closed = closure(now, rules)
    for r in rules:
        if (r.kind == "exclusive" or r.negated) and set(r.types) <= closed:
            return True
    if _has_cycle(closed, {(a, b) for a, b in priors if a != b}):
        return True
    if not whole:
        return False
    if any((k, u) in priors for k in closed - now for u in now):
        return True
    ends = {e for r in rules if r.kind == "end" for e in r.types}
    return t in ends and not closed <= now


def _has_cycle(nodes: set[Any], edges: set[tuple[Any, Any]]) -> bool:
    left = set(nodes)
    while left:
        free = [n for n in left if not any(b == n and a in left for a, b in edges)]
        if not free:
            return True
        left -= set(free)
    return False


def cut(
    rows: Sequence[Row], rules: Sequence[Any], partition: Sequence[str], kind: str, time: str, check: bool = True
) -> Cut:
    """Rows in total order, as traces; with `check` violations are found and left out."""
    begins = {b for r in rules if r.kind == "begin" for b in r.types}
    ends = {e for r in rules if r.kind == "end" for e in r.types}
    silences = [r.span for r in rules if r.kind == "end after"]
    silence = min(silences) if silences else None
    open_traces: dict[tuple[Any, ...], Trace] = {}
    seen: dict[int, set[Any]] = {}
    found = Cut([], [])
    for place, row in enumerate(rows):
        key = tuple(row[c] for c in partition)
        if any(value is None for value in key):
            continue
        t = row[kind]
        trace = open_traces.get(key)
        if trace is None or trace.ended or (silence is not None and row[time] > trace.last + silence):
            trace = open_traces[key] = Trace(whole=not begins or t in begins)
            found.traces.append(trace)
            seen[id(trace)] = set()
        trace.places.append(place)
        trace.last = row[time]
        if t is None:
            continue
        if check and breaks(seen[id(trace)], t, rules, trace.whole):
            found.violations.append(place)
        else:
            trace.accepted.append(place)
            seen[id(trace)].add(t)
        trace.ended = t in ends
    return found


# -- a query


def names_of(node: Node) -> list[str]:
    """The names that a match binds, in the order written."""
    if isinstance(node, Leaf):
        return [node.name]
    if node.operator == "NOT":
        return []
    return list(dict.fromkeys(name for member in node.members for name in names_of(member)))


def answer(
    query: Query,
    rows: Sequence[Row],
    rules: Sequence[Any],
    partition: Sequence[str],
    kind: str = "type",
    time: str = "ts",
    *,
    check: bool = True,
    start: int | None = None,
    upto: int | None = None,
) -> list[Match]:
    """The query's results in the order of delivery. `start`: earlier rows do not exist for it. `upto`: the newest row,
    at a
    bounded end."""
    names = names_of(query.expression)
    never = len(rows) + 1
    written = lambda match: [match.bound.get(name, never) for name in names]
    found: list[Match] = []
    for trace in cut(rows, rules, partition, kind, time, check).traces:
        places = [p for p in (trace.accepted if check else trace.places) if start is None or rows[p][time] > start]
        here = matches(query, rows, places, kind, time)
        if upto is not None:
            here = [match for match in here if match.ts <= upto]
        if query.first and here:
            here = [min(here, key=lambda match: (match.ts, match.last, written(match)))]
        found += here
    return sorted(found, key=lambda match: (match.ts, match.waits, match.last, written(match)))
