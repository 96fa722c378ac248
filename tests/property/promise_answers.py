"""Random streams with punctuations: what the oracle says of a case.

Answer   `expected(case)` has the results of every query and the violations of every stream, from the definitions in
         `oracle/promises.py`. `placed(case)` has all rows in total order, and all promises.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from tests.oracle.promises import LAST, Placed, Promise, Reference, World, end_of, violations
from tests.property.promises import COLUMNS, SECOND, Ask, Case


def placed(case: Case) -> tuple[list[Placed], list[Promise]]:
    """All rows in total order that break no heartbeat, and all promises."""
    rows: list[Placed] = []
    promises: list[Promise] = []
    positions = {stream.name: at for at, stream in enumerate(case.streams)}
    for stream in case.streams:
        refused = stream.broken()
        for at, row in enumerate(stream.rows):
            place = (int(str(row["ts"])), positions[stream.name], at)
            if row["done"]:
                pattern = tuple((c, row[c]) for c in COLUMNS if row[c] is not None)
                promises.append(Promise(stream.name, pattern, place))
                continue
            if at in refused:
                continue
            rows.append(Placed(stream.name, row, place))
            if stream.key:
                promises.append(Promise(stream.name, (("id", row["id"]),), place))
            for other in case.streams:
                closes = int(str(row["c"] if other.at and row["c"] is not None else place[0]))
                if other.source == stream.name and row["j"] is not None and (row["c"] is not None or not other.at):
                    promises.append(
                        Promise(other.name, (("k", row["j"]),), (closes, LAST, 0) if closes >= place[0] else place)
                    )
    for name, _, instant, pattern, listed in case.said:
        promises.append(Promise(name, pattern, (instant, LAST, 0), listed))
    return sorted(rows, key=lambda row: row.place), promises


def expected(
    case: Case, declared: frozenset[str] | None = None
) -> tuple[dict[str, list[object]], dict[str, list[tuple[int, str]]]]:
    """Results per query, and violations per stream; where the streams end with the run, `declared` are those with
    punctuations."""
    rows, promises = placed(case)
    dead = violations(rows, promises, {})
    kept = [row for row in rows if row.place not in dead]
    lost = {
        s.name: [int(str(r.values["id"])) for r in rows if r.place in dead and r.stream == s.name] for s in case.streams
    }
    for s in case.streams:
        lost[s.name] += [int(str(s.rows[at]["id"])) for at in s.broken()]
    letters = {name: sorted((number, "violation") for number in numbers) for name, numbers in lost.items()}
    ends = {s.name: end_of([one for one in s.brought() if one[0] != "over"]) for s in case.streams}
    answers: dict[str, list[object]] = {}
    for number, ask in enumerate(case.asks):
        found = _combinations(ask, kept)
        results: list[object] = [
            tuple(
                sorted(
                    [(f"{alias}_id", str(row.values["id"])) for alias, row in one.items()]
                    + [("_ts", _time(_newest(one)))]
                )
            )
            for one in found
        ]
        answers[f"joined{number}"] = sorted(results, key=str)
        world = World(ask.storing(), ask.equalities, kept, promises)
        answers[f"closing{number}"] = sorted(
            _closed(ask, _ended(world, declared, _end(ask, ends)), found, _end(ask, ends)), key=str
        )
        answers[f"told{number}"] = sorted(_told(ask, world, _end(ask, ends)), key=str)
    if case.united:
        parts = [stream.name for stream in case.streams[:2]]
        answers["united"] = sorted(_united(parts, ends, kept, promises, declared is not None), key=str)
    return answers, letters


def _united(
    parts: list[str], reached: dict[str, int], kept: list[Placed], promises: list[Promise], has_ended: bool
) -> list[object]:
    """A value is finished for the union when all its parts have finished it."""
    finished: list[Promise] = []
    for column in COLUMNS:
        asks = [Ask([Reference("r0", part)], [], column) for part in parts]
        ends = [_ends(ask, World(ask.references, [], kept, promises), _end(ask, reached)) for ask in asks]
        for value in ends[0].keys() & ends[1].keys():
            finished.append(Promise("u", ((column, value),), (max(end[value] for end in ends), LAST, 0)))

    rows = [replace(row, stream="u") for row in kept if row.stream in parts]
    ask = Ask([Reference("r0", "u")], [])
    world = World(ask.references, [], rows, finished)
    end = max(reached[part] for part in parts)
    return _closed(ask, _ended(world, frozenset("u") if has_ended else None, end), _combinations(ask, rows), end)


def _ended(world: World, declared: frozenset[str] | None, end: int) -> World:
    """A world whose streams end: of the declared ones no row comes any more."""
    over = [Promise(name, (), (end, LAST, 0)) for name in sorted(declared or ())]
    return replace(world, promises=[*world.promises, *over])


def _end(ask: Ask, reached: dict[str, int]) -> int:
    """How far the streams of a query have come when the run ends."""
    return max(reached[reference.stream] for reference in ask.references)


def _newest(combination: dict[str, Placed]) -> int:
    return max(row.ts for row in combination.values())


def _time(ts: int) -> str:
    return str(datetime(1970, 1, 1) + timedelta(microseconds=ts))


def _combinations(ask: Ask, rows: list[Placed]) -> list[dict[str, Placed]]:
    made: list[dict[str, Placed]] = [{}]
    for reference in ask.references:
        mine = [row for row in rows if row.stream == reference.stream and reference.filter(row.values)]
        made = [
            {**one, reference.alias: row} for one in made for row in mine if _holds(ask, {**one, reference.alias: row})
        ]
    return [one for one in made if _inside(ask, rows, one)]


def _holds(ask: Ask, one: dict[str, Placed]) -> bool:
    for a, x, b, y in ask.equalities:
        if a in one and b in one:
            left, right = one[a].values[x], one[b].values[y]
            if left is None or left != right:
                return False
    return all(one[b].ts <= one[a].ts + seconds * SECOND for a, b, seconds in ask.bounds if a in one and b in one)


def _inside(ask: Ask, rows: list[Placed], one: dict[str, Placed]) -> bool:
    newest = max(one.values(), key=lambda row: row.place)
    for reference in ask.references:
        row = one[reference.alias]
        if reference.range is not None and newest.ts - row.ts > reference.range:
            return False
        if reference.rows is not None:
            after = [r for r in rows if r.stream == reference.stream and row.place < r.place <= newest.place]
            if len(after) >= reference.rows:
                return False
    return True


def _closed(ask: Ask, world: World, found: list[dict[str, Placed]], end: int) -> list[object]:
    column, first = ask.group_column, ask.references[0].alias
    instants = sorted({*(p.instant for p in world.promises), *_edges(world), end} | {0})
    instants = sorted({t for t in instants for t in (t, t + 1)})
    groups: dict[object, list[dict[str, Placed]]] = {}
    for one in found:
        groups.setdefault(one[first].values[column], []).append(one)
    answers: list[object] = []
    for value, members in groups.items():
        pins = {alias: {name: value} for alias, name in _class(ask, first, column)}
        last = (
            world.last_instant(pins, instants)
            if value is not None or () in [p.pattern for p in world.promises]
            else None
        )
        if last is not None and last <= end:
            answers.append(tuple(sorted([("g", str(value)), ("n", str(len(members))), ("_ts", _time(last))])))
    return answers


def _told(ask: Ask, world: World, end: int) -> list[object]:
    return [
        tuple(sorted([("g", str(value)), ("_ts", _time(until))])) for value, until in _ends(ask, world, end).items()
    ]


def _ends(ask: Ask, world: World, end: int) -> dict[object, int]:
    """The values that are finished at the end, with the instants at which they are."""
    same = _class(ask, ask.references[0].alias, ask.group_column)
    seen: dict[object, int] = {}
    for alias, name in same:
        reference = world.reference(alias)
        for row in world.rows:
            if row.stream == reference.stream and row.values[name] is not None and reference.filter(row.values):
                seen[row.values[name]] = min(seen.get(row.values[name], row.ts), row.ts)
        for promise in world.promises:
            for column, value in promise.named if promise.stream == reference.stream and promise.instant <= end else ():
                if column == name:
                    seen[value] = min(seen.get(value, promise.instant), promise.instant)
    instants = sorted({t + d for t in (*(p.instant for p in world.promises), *_edges(world), end) for d in (0, 1)})
    found = {
        value: world.ends({alias: {name: value} for alias, name in same}, since, instants)
        for value, since in seen.items()
    }
    return {value: until for value, until in found.items() if until <= end}


def _edges(world: World) -> set[int]:
    found = set()
    for reference in world.references:
        mine = [row for row in world.rows if row.stream == reference.stream]
        found |= {row.ts for row in mine}
        if reference.range is not None:
            found |= {row.ts + reference.range for row in mine}
    return found


def _class(ask: Ask, alias: str, column: str) -> set[tuple[str, str]]:
    found = {(alias, column)}
    for _ in ask.equalities:
        for a, x, b, y in ask.equalities:
            if (a, x) in found or (b, y) in found:
                found |= {(a, x), (b, y)}
    return found
