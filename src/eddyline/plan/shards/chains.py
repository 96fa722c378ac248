"""Which queries over queries may run on several shards, and by which keys: derived rows stay in the shard that makes
them.

Answer   `placed_chain` places queries that read each other's derived streams. A *thread* is one key through all of
         them: an expression per reference. Rows that have to meet have equal values, and rows of a derived stream are
         made in the shard that reads them:

             CREATE STREAM d AS SELECT a.k, … FROM a, b WHERE a.k = b.k        a by a.k, b by b.k   ─►   d by d.k
             SELECT d.k, count(*) FROM d GROUP BY d.k, d.x                      d by d.k

         All threads together are the key by which the rows from outside are placed. A derived stream that only selects,
         unions and aggregates in parts read needs no key: each row is a matter of its own.
Limits   One axis, and no row is sent twice. Without a thread a `Misfit` with the reason is raised, and the queries run
         in one shard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from eddyline.model.datatypes import BOOLEAN
from eddyline.model.expressions.expression import Aggregate, Call, ColumnRef, Expression, columns_of, refs_of, walk
from eddyline.model.query import BoundQuery
from eddyline.model.schema import ROW, Stream
from eddyline.model.window import PartitionedRows, Rows
from eddyline.plan.shards.axes import axes_of, key_classes, placing_keys
from eddyline.plan.shards.chain_keys import (
    Misfit,
    changed_key,
    check_key,
    is_bucket,
    is_inexact,
    kept_references,
    moved_key,
    outputs_of,
    reads_only,
    refuse_whole,
)

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


def parts_of(query: BoundQuery) -> tuple[BoundQuery, ...]:
    """The queries behind the subqueries of a query, and the query."""
    return (*query.makers, query)


def chains_of(queries: Sequence[BoundQuery]) -> list[list[BoundQuery]]:
    """The queries over derived streams, those together that one stream ties to each other."""
    found: list[tuple[set[str], list[BoundQuery]]] = []
    for query in queries:
        if query.is_composed:
            streams = {name for part in parts_of(query) for name in (*_made(part), *_derived(part))}
            tied = [one for one in found if one[0] & streams]
            found = [one for one in found if one not in tied]
            found.append((streams.union(*(one[0] for one in tied)), [*(q for one in tied for q in one[1]), query]))
    order = {query.name: at for at, query in enumerate(queries)}
    return [sorted(chain, key=lambda q: order[q.name]) for _, chain in found]


def _made(part: BoundQuery) -> list[str]:
    return [] if part.feeds is None else [part.feeds.name]


def _derived(part: BoundQuery) -> list[str]:
    return [r.source for r in part.streams if r.derived]


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
            return _Chains(parts, merged, known or {}, others).placed()
        except Misfit as misfit:
            problem = problem or misfit
    assert problem is not None
    raise problem


def placed_again(
    query: BoundQuery, streams: Mapping[str, PlacedKeys], merged: bool, others: Sequence[BoundQuery]
) -> Mapping[str, PartKeys]:
    """The keys of a query whose streams were placed before; `others` are the queries that are tied to it."""
    return _Chains(parts_of(query), frozenset({query.name} if merged else ()), {}, others).under(streams)


def _refuse(parts: Sequence[BoundQuery], known: Mapping[str, PlacedKeys]) -> None:
    """What has to see all rows of a derived stream."""
    read = {name for part in parts for name in _derived(part)}
    for part in parts:
        is_live = part.living is not None
        refuse_whole(
            part, "counts what an outer join of live rows gives, and knows rows by their numbers" if is_live else ""
        )
        if part.feeds is not None and part.feeds.name not in read and part.feeds.name not in known:
            raise Misfit(f"no query reads {part.feeds.name}, so that nothing says where its rows are wanted")


def _is_cut_by_group(part: BoundQuery) -> bool:
    return part.is_aggregate or part.ranking is not None or bool(part.followed)


@dataclass
class _Thread:
    """One key on its way through the queries."""

    parts: dict[str, dict[str, Expression]] = field(default_factory=dict)
    streams: dict[str, Expression] = field(default_factory=dict)


class _Chains:
    def __init__(
        self,
        parts: Sequence[BoundQuery],
        merged: frozenset[str],
        known: Mapping[str, PlacedKeys],
        others: Sequence[BoundQuery],
    ) -> None:
        self.parts = {part.name: part for part in parts}
        # What is placed already says which columns are equal.
        parts = [*(part for query in others for part in parts_of(query) if part.name not in self.parts), *parts]
        self.merged = merged
        self.known = known
        self.feeds: dict[str, Stream] = {part.feeds.name: part.feeds for part in parts if part.feeds is not None}
        self.makers = {name: [p for p in parts if p.feeds is not None and p.feeds.name == name] for name in self.feeds}
        self.classes: dict[str, list[list[Expression]]] = {}
        for part in parts:
            self.classes[part.name] = self._classes(part)
        #: The derived streams of which rows have to meet others.
        self.keyed = {name for part in self.parts.values() for name in _derived(part) if self._is_keyed(name)}

    # -- which rows have to meet

    def _is_keyed(self, stream: str) -> bool:
        """Whether some reader brings rows of a derived stream together, or passes them on to one that does."""
        for part in self.parts.values():
            if stream in _derived(part) and (
                not self._is_row_wise(part) or any(self._is_keyed(name) for name in _made(part))
            ):
                return True
        return False

    def _is_row_wise(self, part: BoundQuery) -> bool:
        """Whether each row of the one stream is a matter of its own."""
        cut = _is_cut_by_group(part) and part.name not in self.merged
        return len(part.streams) == 1 and not cut and part.pattern is None

    def _classes(self, part: BoundQuery) -> list[list[Expression]]:
        """Keys that a query, or a query that makes what it reads, holds equal. Rows with one number are one row: all
        their columns are
        equal."""
        implied: list[Expression] = []
        for reference in part.streams:
            for column in self.feeds[reference.source].schema.columns if reference.source in self.feeds else ():
                mine = ColumnRef(reference.source, column.name, column.type)
                pair = (
                    moved_key(e, reference.source, reference.alias)
                    for e in (self._canonical(reference.source, mine), mine)
                )
                implied.append(Call("=", tuple(pair), BOOLEAN))
        sources = {r.alias: r.source for r in part.streams if r.derived}
        for condition in part.where:
            match condition:
                case Call("=", (ColumnRef(one, left), ColumnRef(other, right))) if left == right and left.endswith(
                    f".{ROW}"
                ):
                    schemas = [
                        self.feeds[sources[str(ref)]].schema
                        for ref in (one, other)
                        if sources.get(str(ref)) in self.feeds
                    ]
                    if len(schemas) == 2:
                        prefix = left.removesuffix(ROW)
                        shared = [
                            c
                            for c in schemas[0].columns
                            if c.name.startswith(prefix) and schemas[1].find(c.name) is not None
                        ]
                        implied += [
                            Call(
                                "=", (ColumnRef(one, c.name, c.type), ColumnRef(other, c.name, c.type)), condition.type
                            )
                            for c in shared
                        ]
        return key_classes((*part.where, *(e for e in implied if isinstance(e, Call) and e.args[0] != e.args[1])))

    # -- threads

    def placed(self) -> Chain:
        keys: dict[str, dict[str, tuple[Expression, ...]]] = {}
        streams = {name: PlacedKeys() for part in self.parts.values() for name in _made(part) if name not in self.keyed}
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
                keys[name] = self._alone(part)
        return Chain(keys, {name: found for name, found in streams.items() if name not in self.known}, self.merged)

    def _starts(self) -> Iterator[BoundQuery]:
        """Queries that bring rows of derived streams together."""
        found = [
            p
            for p in self.parts.values()
            if not self._is_row_wise(p) and any(name in self.keyed for name in _derived(p))
        ]
        # Those that streams with known keys bind come first.
        return iter(sorted(found, key=lambda p: not any(name in self.known for name in _derived(p))))

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
            raise problem or Misfit(f"{start.name} has no key that spreads rows of {', '.join(_derived(start))}")
        return found

    def _candidates(self, part: BoundQuery) -> list[tuple[str, Expression]]:
        """Keys of a query over one of its derived references."""
        derived = [r.alias for r in part.streams if r.derived]
        keys = [key for of_class in self.classes[part.name] for key in of_class]
        if _is_cut_by_group(part) and part.name not in self.merged:
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
                if not self._is_same(part, alias, known[alias], key):
                    raise Misfit(
                        f"{part.name} has another key than the other queries over {part.reference(alias).source}"
                    )
                continue
            thread.parts[part.name] = self._admitted(part, alias, key)
            waiting += self._onwards(thread, part)
        return thread

    def _onwards(self, thread: _Thread, part: BoundQuery) -> Iterator[tuple[BoundQuery, str, Expression]]:
        """The key of a query, to the queries that make what it reads and read what it makes."""
        keys = thread.parts[part.name]
        met = [(r.source, moved_key(keys[r.alias], r.alias, r.source)) for r in part.streams if r.derived]
        if part.feeds is not None and part.feeds.name in self.keyed:
            met.append((part.feeds.name, self._lifted(part, keys, thread.streams.get(part.feeds.name))))
        for stream, key in met:
            key = self._canonical(stream, key)
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
                    yield self._lowered(maker, stream, key)
            for reader in self.parts.values():
                if not self._is_row_wise(reader) or any(name in self.keyed for name in _made(reader)):
                    yield from (
                        (reader, r.alias, moved_key(key, stream, r.alias)) for r in reader.streams if r.source == stream
                    )

    def _is_same(self, part: BoundQuery, alias: str, one: Expression, other: Expression) -> bool:
        """Whether two keys of a reference are always equal."""
        if one == other:
            return True
        if part.keeping is None and any(one in keys and other in keys for keys in self.classes[part.name]):
            # Rows in which they differ are in no result; an outer join keeps them.
            return True
        reference = part.reference(alias)
        if not reference.derived:
            return False
        return self._canonical(reference.source, moved_key(one, alias, reference.source)) == self._canonical(
            reference.source, moved_key(other, alias, reference.source)
        )

    # -- one query

    def _admitted(self, part: BoundQuery, alias: str, key: Expression) -> dict[str, Expression]:
        """The keys of all references of a query where one of them has this key.

        Raises:
            Misfit: rows that have to meet may have other keys.
        """
        check_key(part, key)
        keys = {alias: key}
        for reference in part.streams:
            if reference.alias != alias:
                moved = self._equal_key(part, key, reference.alias)
                if moved is None:
                    raise Misfit(f"{part.name} does not hold {key} equal to anything of {reference.alias}")
                keys[reference.alias] = moved
        if (
            _is_cut_by_group(part)
            and part.name not in self.merged
            and not self._is_within(part, key, placing_keys(part))
        ):
            what = "partitions" if part.ranking is not None or part.followed else "groups"
            raise Misfit(f"{key} does not follow from the {what} of {part.name}")
        if part.pattern is not None and not self._is_within(part, key, part.pattern.keys):
            raise Misfit(f"{key} does not follow from the partition of {part.name}")
        for reference in part.streams:
            if isinstance(reference.window, PartitionedRows) and not reads_only(
                keys[reference.alias], reference.window.columns
            ):
                raise Misfit(f"{keys[reference.alias]} does not follow from the partition of {reference.alias}")
            if isinstance(reference.window, Rows) and reference.derived:
                raise Misfit(f"{part.name} counts all rows of {reference.source}")
        return keys

    def _equal_key(self, part: BoundQuery, key: Expression, alias: str) -> Expression | None:
        """What a query holds equal to a key, over another reference: as a whole, or column by column."""
        for keys in self.classes[part.name]:
            if key in keys:
                found = next((other for other in keys if refs_of(other) == {alias}), None)
                if found is not None:
                    return found
        if not isinstance(key, Call):
            return None
        return changed_key(key, lambda column: None if is_inexact(column) else self._equal_key(part, column, alias))

    def _is_within(self, part: BoundQuery, key: Expression, keys: Iterable[Expression]) -> bool:
        """Whether a key has one value per value of these keys."""
        known = set(keys)
        for of_class in self.classes[part.name]:
            if known & set(of_class):
                known |= set(of_class)
        if key in known:
            return True
        columns = [c for c in walk(key) if isinstance(c, ColumnRef)]
        return bool(columns) and all(c in known and not is_inexact(c) for c in columns)

    def _lowered(self, maker: BoundQuery, stream: str, key: Expression) -> tuple[BoundQuery, str, Expression]:
        """The key of a derived stream, over one reference of a query that makes it."""
        made = self.feeds[stream]
        if made.unnests and (stream, made.unnests) in columns_of(key):
            raise Misfit(f"rows of {stream} are elements of {made.unnests}, which one row of {maker.name} has many of")
        outputs = outputs_of(maker)
        found = changed_key(key, lambda column: outputs.get(column.column))
        if found is None:
            raise Misfit(f"{key} is no column of what {maker.name} selects")
        aliases = sorted({str(ref) for ref in refs_of(found)})
        if len(aliases) != 1 or any(isinstance(e, Aggregate) for e in walk(found)):
            raise Misfit(f"{key} is {found} in {maker.name}, which is known only where its rows have met")
        if (kept := kept_references(maker)) is not None and kept != aliases:
            raise Misfit(f"{key} is null in rows of {maker.name} without a partner")
        if maker.reference(aliases[0]).is_table:
            raise Misfit(f"{key} is a column of table {maker.reference(aliases[0]).source}")
        return maker, aliases[0], found

    def _lifted(self, part: BoundQuery, keys: Mapping[str, Expression], wanted: Expression | None) -> Expression:
        """The key of a query, over the columns of the stream that it makes."""
        assert part.feeds is not None
        stream, kept = part.feeds, kept_references(part)
        columns = [
            (ColumnRef(stream.name, name, e.type), e) for name, e in outputs_of(part).items() if name != stream.unnests
        ]
        if wanted is not None and self._lowered(part, stream.name, wanted)[1:] in keys.items():
            return wanted
        for alias, key in keys.items():
            if kept is None or kept == [alias]:
                whole = next((column for column, expression in columns if expression == key), None)
                found = whole or changed_key(key, lambda c: next((column for column, e in columns if e == c), None))
                if found is not None:
                    return found
        raise Misfit(f"{', '.join(map(str, keys.values()))} of {part.name} is no column of {stream.name}")

    def _canonical(self, stream: str, key: Expression) -> Expression:
        """The key with the first of the columns that are always equal."""
        makers = self.makers.get(stream, [])
        if len(makers) != 1 or makers[0].keeping is not None:
            return key
        made, (maker,) = self.feeds[stream], makers
        outputs = {name: e for name, e in outputs_of(maker).items() if name != made.unnests}

        def first(column: ColumnRef) -> Expression:
            mine = outputs.get(column.column)
            same = next((keys for keys in self.classes.get(maker.name, ()) if mine in keys), [mine])
            return next(
                (replace(column, column=name) for name, e in outputs.items() if e in same and e.type == column.type),
                column,
            )

        return changed_key(key, first) or key

    def _alone(self, part: BoundQuery) -> dict[str, tuple[Expression, ...]]:
        """The keys of a query that no key comes to: its rows meet each other alone, or are placed by their numbers."""
        if any(r.derived for r in part.streams):
            return {}
        aliases = tuple(r.alias for r in part.streams)
        for axis in axes_of(part, aliases, part.name in self.merged):
            keys = [key for of_alias in axis.keys.values() for key in of_alias]
            if set(axis.keys) == set(aliases) and not (keys and all(map(is_bucket, keys))):
                return dict(axis.keys)
        raise Misfit(f"{part.name} has no key that all its streams have")

    def under(self, streams: Mapping[str, PlacedKeys]) -> dict[str, dict[str, tuple[Expression, ...]]]:
        """The keys of queries whose streams have these."""
        found: dict[str, dict[str, tuple[Expression, ...]]] = {}
        for name, part in self.parts.items():
            over = next((r for r in part.streams if r.derived and streams[r.source].keys), None)
            made = streams[part.feeds.name].keys if part.feeds is not None else ()
            if over is not None and not (self._is_row_wise(part) and not made):
                drawn = [
                    self._admitted(part, over.alias, moved_key(key, over.source, over.alias))
                    for key in streams[over.source].keys
                ]
            elif made and part.feeds is not None:
                drawn = [self._admitted(*self._lowered(part, part.feeds.name, key)) for key in made]
            else:
                found[name] = self._alone(part)
                continue
            found[name] = {alias: tuple(keys[alias] for keys in drawn) for alias in drawn[0]}
        return found
