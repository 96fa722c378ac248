"""Queries over queries on several shards: by which keys their rows are placed.

Answer   `placed_chain` places queries that read each other's derived streams. A *thread* is one key through all of
         them: an expression per reference. Rows that have to meet have equal values, and rows of a derived stream are
         made in the shard that reads them:

             CREATE STREAM d AS SELECT a.k, … FROM a, b WHERE a.k = b.k        a by a.k, b by b.k   ─►   d by d.k
             SELECT d.k, count(*) FROM d GROUP BY d.k, d.x                      d by d.k

         All threads together are the key by which the rows from outside are placed. A derived stream needs no key if
         each result of its readers comes of one of its rows, or is merged from the parts of shards.
Limits   One axis, and no row is sent twice. Without a thread a `Misfit` with the reason is raised, and the queries run
         in one shard. `chain_parts.py` moves keys through single queries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from eddyline.model.expressions.expression import ColumnRef, Expression, refs_of, walk
from eddyline.model.query import BoundQuery
from eddyline.model.window import PartitionedRows
from eddyline.plan.shards.axes import placing_keys
from eddyline.plan.shards.chain_keys import Misfit, moved_key, refuse_whole
from eddyline.plan.shards.chain_parts import ChainParts, derived_of, made_by, parts_of

#: Per reference of a query the keys that place its rows; no keys: by row number.
PartKeys = Mapping[str, tuple[Expression, ...]]


@dataclass(frozen=True)
class PlacedKeys:
    """The keys of the rows of one derived stream; none: its rows are anywhere."""

    keys: tuple[Expression, ...] = ()


@dataclass(frozen=True)
class Chain:
    """How the rows of some queries over derived streams are placed."""

    #: Query, those behind subqueries too -> the keys of its references.
    keys: Mapping[str, PartKeys]
    #: Derived stream -> the keys of its rows.
    streams: Mapping[str, PlacedKeys]
    #: The queries whose groups are kept in parts.
    merged: frozenset[str] = frozenset()


def chains_of(queries: Sequence[BoundQuery]) -> list[list[BoundQuery]]:
    """The queries over derived streams. Queries that make or read one stream are in one chain."""
    found: list[tuple[set[str], list[BoundQuery]]] = []
    for query in queries:
        if query.is_composed:
            streams = {name for part in parts_of(query) for name in (*made_by(part), *derived_of(part))}
            tied = [one for one in found if one[0] & streams]
            found = [one for one in found if one not in tied]
            found.append((streams.union(*(one[0] for one in tied)), [*(q for one in tied for q in one[1]), query]))
    order = {query.name: at for at, query in enumerate(queries)}
    return [sorted(chain, key=lambda q: order[q.name]) for _, chain in found]


def placed_chain(
    queries: Sequence[BoundQuery],
    whole_because: Callable[[BoundQuery], str],
    known: Mapping[str, PlacedKeys] | None = None,
    others: Sequence[BoundQuery] = (),
) -> Chain:
    """The placement of queries that derived streams tie together.

    Args:
        queries: Those that have none yet.
        whole_because: Why the groups of a query cannot be kept in parts; empty: they can.
        known: Streams whose rows are placed already, by queries that run.
        others: These queries.

    Raises:
        Misfit: there is none.
    """
    parts = [part for query in queries for part in parts_of(query)]
    _refuse(parts, known or {})
    mergeable = frozenset(q.name for q in queries if q.feeds is None and q.is_aggregate and not whole_because(q))
    problem = None
    for merged in (frozenset[str](), mergeable) if mergeable else (frozenset[str](),):
        try:
            return _Threads(parts, merged, known or {}, others).placed()
        except Misfit as misfit:
            problem = problem or misfit
    assert problem is not None
    raise problem


def placed_again(
    query: BoundQuery, streams: Mapping[str, PlacedKeys], merged: bool, others: Sequence[BoundQuery]
) -> Mapping[str, PartKeys]:
    """The keys of a query whose streams were placed before; `others` are the queries that are tied to it."""
    return _Threads(parts_of(query), frozenset({query.name} if merged else ()), {}, others).under(streams)


def _refuse(parts: Sequence[BoundQuery], known: Mapping[str, PlacedKeys]) -> None:
    """Raise if one of the queries has to see all rows of a derived stream, or nothing reads what it makes."""
    read = {name for part in parts for name in derived_of(part)}
    for part in parts:
        live = "counts what an outer join of live rows gives, and knows rows by their numbers"
        refuse_whole(part, "" if part.living is None else live)
        if part.feeds is not None and part.feeds.name not in read and part.feeds.name not in known:
            raise Misfit(f"no query reads {part.feeds.name}, so that nothing says where its rows are wanted")


@dataclass
class _Thread:
    """One key through all queries: per query and reference, and per derived stream."""

    parts: dict[str, dict[str, Expression]] = field(default_factory=dict)
    streams: dict[str, Expression] = field(default_factory=dict)


class _Threads(ChainParts):
    """The threads through the queries of a chain; `known` are streams whose rows are placed already."""

    def __init__(
        self,
        parts: Sequence[BoundQuery],
        merged: frozenset[str],
        known: Mapping[str, PlacedKeys],
        others: Sequence[BoundQuery],
    ) -> None:
        super().__init__(parts, merged, others)
        self.known = known
        #: The derived streams of which rows have to meet others.
        self.keyed = {name for part in self.parts.values() for name in derived_of(part) if self._is_keyed(name)}

    def _is_keyed(self, stream: str) -> bool:
        """Whether some reader brings rows of a derived stream together, or makes a stream of which that holds."""
        readers = [part for part in self.parts.values() if stream in derived_of(part)]
        return any(not self.is_row_wise(part) or any(map(self._is_keyed, made_by(part))) for part in readers)

    def placed(self) -> Chain:
        keys: dict[str, dict[str, tuple[Expression, ...]]] = {}
        streams = {
            name: PlacedKeys() for part in self.parts.values() for name in made_by(part) if name not in self.keyed
        }
        for start in self._starts():
            if start.name not in keys:
                threads = self._threads(start)
                for thread in threads:
                    for name, of_part in thread.parts.items():
                        mine = keys.setdefault(name, {})
                        for alias, key in of_part.items():
                            mine[alias] = (*mine.get(alias, ()), key)
                for name in threads[0].streams:
                    streams[name] = PlacedKeys(tuple(thread.streams[name] for thread in threads))
        for name, part in self.parts.items():
            if name not in keys:
                keys[name] = self.alone(part)
        return Chain(keys, {name: found for name, found in streams.items() if name not in self.known}, self.merged)

    def _starts(self) -> Iterator[BoundQuery]:
        """Queries that bring rows of derived streams together."""
        found = [
            p
            for p in self.parts.values()
            if not self.is_row_wise(p) and any(name in self.keyed for name in derived_of(p))
        ]
        # Those that streams with known keys bind come first.
        return iter(sorted(found, key=lambda p: not any(name in self.known for name in derived_of(p))))

    def _threads(self, start: BoundQuery) -> list[_Thread]:
        """All threads through a query: as many as the streams that are known have keys, or those that begin with a key
        of its own."""
        found: list[_Thread] = []
        problem: Misfit | None = None
        fixed = next((r for r in start.streams if r.source in self.known), None)
        if fixed is not None:
            keys = self.known[fixed.source].keys
            if not keys:
                raise Misfit(f"rows of {fixed.source} are in any shard, and {start.name} brings them together")
            return [
                self._drawn(start, fixed.alias, moved_key(key, fixed.source, fixed.alias), place)
                for place, key in enumerate(keys)
            ]
        for alias, key in self._candidates(start):
            try:
                thread = self._drawn(start, alias, key, None)
            except Misfit as misfit:
                problem = problem or misfit
                continue
            if thread.streams not in [one.streams for one in found]:
                found.append(thread)
        if not found:
            raise problem or Misfit(f"{start.name} has no key that spreads rows of {', '.join(derived_of(start))}")
        return found

    def _candidates(self, part: BoundQuery) -> list[tuple[str, Expression]]:
        """Keys of a query over one of its derived references."""
        derived = [r.alias for r in part.streams if r.derived]
        keys = [key for of_class in self.classes[part.name] for key in of_class]
        if self.is_cut_by_group(part):
            keys = [*placing_keys(part), *keys]
        if part.pattern is not None:
            keys = list(part.pattern.keys)
        for reference in part.streams:
            if isinstance(reference.window, PartitionedRows):
                keys += [
                    c
                    for e in keys
                    for c in walk(e)
                    if isinstance(c, ColumnRef) and c.column in reference.window.columns
                ]
        return [(alias, key) for key in dict.fromkeys(keys) for alias in derived if refs_of(key) == {alias}]

    def _drawn(self, part: BoundQuery, alias: str, key: Expression, place: int | None) -> _Thread:
        """The thread of a key; `place` says which of the keys of known streams it has to meet."""
        thread = _Thread()
        if place is not None:
            thread.streams |= {name: found.keys[place] for name, found in self.known.items() if place < len(found.keys)}
        waiting = [(part, alias, key)]
        while waiting:
            part, alias, key = waiting.pop()
            known = thread.parts.get(part.name)
            if known is not None:
                if not self.is_same(part, alias, known[alias], key):
                    raise Misfit(
                        f"{part.name} has another key than the other queries over {part.reference(alias).source}"
                    )
                continue
            thread.parts[part.name] = self.admitted(part, alias, key)
            waiting += self._onwards(thread, part)
        return thread

    def _onwards(self, thread: _Thread, part: BoundQuery) -> Iterator[tuple[BoundQuery, str, Expression]]:
        """The key of a query, to the queries that make what it reads and read what it makes."""
        keys = thread.parts[part.name]
        met = [(r.source, moved_key(keys[r.alias], r.alias, r.source)) for r in part.streams if r.derived]
        if part.feeds is not None and part.feeds.name in self.keyed:
            met.append((part.feeds.name, self.lifted(part, keys, thread.streams.get(part.feeds.name))))
        for stream, key in met:
            key = self.canonical(stream, key)
            if stream in thread.streams:
                if thread.streams[stream] != key:
                    raise Misfit(f"rows of {stream} would have to be placed by {thread.streams[stream]} and by {key}")
                if stream not in self.known:
                    continue
            elif stream in self.known:
                raise Misfit(f"rows of {stream} are in any shard, and {part.name} brings them together")
            thread.streams[stream] = key
            for maker in self.makers.get(stream, ()):
                if maker.name in self.parts and (maker is not part or maker.name not in thread.parts):
                    yield self.lowered(maker, stream, key)
            for reader in self.parts.values():
                if not self.is_row_wise(reader) or any(name in self.keyed for name in made_by(reader)):
                    yield from (
                        (reader, r.alias, moved_key(key, stream, r.alias)) for r in reader.streams if r.source == stream
                    )

    def under(self, streams: Mapping[str, PlacedKeys]) -> dict[str, dict[str, tuple[Expression, ...]]]:
        """The keys of queries whose streams have these."""
        found: dict[str, dict[str, tuple[Expression, ...]]] = {}
        for name, part in self.parts.items():
            over = next((r for r in part.streams if r.derived and streams[r.source].keys), None)
            made = streams[part.feeds.name].keys if part.feeds is not None else ()
            if over is not None and not (self.is_row_wise(part) and not made):
                drawn = [
                    self.admitted(part, over.alias, moved_key(key, over.source, over.alias))
                    for key in streams[over.source].keys
                ]
            elif made and part.feeds is not None:
                drawn = [self.admitted(*self.lowered(part, part.feeds.name, key)) for key in made]
            else:
                found[name] = self.alone(part)
                continue
            found[name] = {alias: tuple(keys[alias] for keys in drawn) for alias in drawn[0]}
        return found
