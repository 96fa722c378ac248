"""The queries of a chain: which keys they hold equal, and how a key moves through one of them.

Answer   `ChainParts` knows the classes of equal keys of each query, and the derived streams with the queries that make
         them. `admitted` gives the keys of all references of a query from the key of one. `lowered` writes a key of a
         derived stream over a query that makes it. `lifted` writes the keys of a query over the stream that it makes.
Limits   A key that cannot move raises `Misfit` with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from eddyline.model.datatypes import BOOLEAN
from eddyline.model.expressions.expression import Aggregate, Call, ColumnRef, Expression, columns_of, refs_of, walk
from eddyline.model.query import BoundQuery
from eddyline.model.schema import ROW, Stream
from eddyline.model.window import PartitionedRows, Rows
from eddyline.plan.shards import chain_keys
from eddyline.plan.shards.axes import axes_of, key_classes, placing_keys
from eddyline.plan.shards.chain_keys import Misfit, changed_key, is_inexact, moved_key, outputs_of


def parts_of(query: BoundQuery) -> tuple[BoundQuery, ...]:
    """The queries behind the subqueries of a query, and the query."""
    return (*query.makers, query)


def made_by(part: BoundQuery) -> list[str]:
    """The derived stream that a query makes, if it makes one."""
    return [] if part.feeds is None else [part.feeds.name]


def derived_of(part: BoundQuery) -> list[str]:
    """The derived streams that a query reads."""
    return [r.source for r in part.streams if r.derived]


class ChainParts:
    """Queries of a chain. `others` are queries of the same chain that are placed already, `merged` the names of queries
    whose groups are kept in parts."""

    def __init__(self, parts: Sequence[BoundQuery], merged: frozenset[str], others: Sequence[BoundQuery]) -> None:
        self.parts = {part.name: part for part in parts}
        # Placed queries hold columns equal too.
        parts = [*(part for query in others for part in parts_of(query) if part.name not in self.parts), *parts]
        self.merged = merged
        self.feeds: dict[str, Stream] = {part.feeds.name: part.feeds for part in parts if part.feeds is not None}
        self.makers = {name: [p for p in parts if name in made_by(p)] for name in self.feeds}
        self.classes: dict[str, list[list[Expression]]] = {}
        for part in parts:
            self.classes[part.name] = key_classes((*part.where, *self._implied(part)))

    def _implied(self, part: BoundQuery) -> list[Expression]:
        """Equalities that hold in a query because of the queries that make what it reads, or because two rows with one
        number are one row."""
        found: list[Expression] = []
        for reference in part.streams:
            for column in self.feeds[reference.source].schema.columns if reference.source in self.feeds else ():
                mine = ColumnRef(reference.source, column.name, column.type)
                same = self.canonical(reference.source, mine)
                if same != mine:
                    pair = (moved_key(e, reference.source, reference.alias) for e in (same, mine))
                    found.append(Call("=", tuple(pair), BOOLEAN))
        streams = {r.alias: self.feeds[r.source].schema for r in part.streams if r.source in self.feeds and r.derived}
        for condition in part.where:
            match condition:
                case Call("=", (ColumnRef(str(one), left), ColumnRef(str(other), right))) if left == right:
                    if left.endswith(f".{ROW}") and one != other and one in streams and other in streams:
                        columns = [c for c in streams[one].columns if c.name.startswith(left.removesuffix(ROW))]
                        found += [
                            Call("=", (ColumnRef(one, c.name, c.type), ColumnRef(other, c.name, c.type)), BOOLEAN)
                            for c in columns
                            if streams[other].find(c.name) is not None
                        ]
        return found

    def is_cut_by_group(self, part: BoundQuery) -> bool:
        """Whether all rows of a group or partition have to be in one shard."""
        return part.has_groups and part.name not in self.merged

    def is_row_wise(self, part: BoundQuery) -> bool:
        """Whether each result comes of one row of the one stream."""
        return len(part.streams) == 1 and not self.is_cut_by_group(part) and part.pattern is None

    def is_same(self, part: BoundQuery, alias: str, one: Expression, other: Expression) -> bool:
        """Whether two keys of a reference are equal in all rows that matter."""
        # Rows in which two keys of a class differ are in no result, unless an outer join keeps them.
        same = part.keeping is None and any(one in keys and other in keys for keys in self.classes[part.name])
        if one == other or same:
            return True
        reference = part.reference(alias)
        keys = [self.canonical(reference.source, moved_key(key, alias, reference.source)) for key in (one, other)]
        return reference.derived and keys[0] == keys[1]

    def admitted(self, part: BoundQuery, alias: str, key: Expression) -> dict[str, Expression]:
        """The keys of all references of a query where one of them has this key.

        Raises:
            Misfit: rows that have to meet may have other keys.
        """
        chain_keys.check_key(part, key)
        keys = {alias: key}
        for reference in part.streams:
            if reference.alias != alias:
                moved = self._equal_key(part, key, reference.alias)
                if moved is None:
                    raise Misfit(f"{part.name} does not hold {key} equal to anything of {reference.alias}")
                keys[reference.alias] = moved
        if self.is_cut_by_group(part) and not self._is_within(part, key, placing_keys(part)):
            what = "partitions" if part.ranking is not None or part.followed else "groups"
            raise Misfit(f"{key} does not follow from the {what} of {part.name}")
        if part.pattern is not None and not self._is_within(part, key, part.pattern.keys):
            raise Misfit(f"{key} does not follow from the partition of {part.name}")
        for reference in part.streams:
            window, mine = reference.window, keys[reference.alias]
            if isinstance(window, PartitionedRows) and any(name not in window.columns for _, name in columns_of(mine)):
                raise Misfit(f"{mine} does not follow from the partition of {reference.alias}")
            if isinstance(window, Rows) and reference.derived:
                raise Misfit(f"{part.name} counts all rows of {reference.source}")
        return keys

    def _equal_key(self, part: BoundQuery, key: Expression, alias: str) -> Expression | None:
        """The expression over another reference that a query holds equal to a key: as a whole, or column by column."""
        mine = (other for keys in self.classes[part.name] if key in keys for other in keys)
        found = next((other for other in mine if refs_of(other) == {alias}), None)
        if found is not None or not isinstance(key, Call):
            return found
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

    def lowered(self, maker: BoundQuery, stream: str, key: Expression) -> tuple[BoundQuery, str, Expression]:
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
        if (kept := chain_keys.kept_references(maker)) is not None and kept != aliases:
            raise Misfit(f"{key} is null in rows of {maker.name} without a partner")
        if maker.reference(aliases[0]).is_table:
            raise Misfit(f"{key} is a column of table {maker.reference(aliases[0]).source}")
        return maker, aliases[0], found

    def lifted(self, part: BoundQuery, keys: Mapping[str, Expression], wanted: Expression | None) -> Expression:
        """The key of a query, over the columns of the stream that it makes."""
        assert part.feeds is not None
        stream, kept = part.feeds, chain_keys.kept_references(part)
        columns = [
            (ColumnRef(stream.name, name, e.type), e) for name, e in outputs_of(part).items() if name != stream.unnests
        ]
        if wanted is not None and self.lowered(part, stream.name, wanted)[1:] in keys.items():
            return wanted
        for alias, key in keys.items():
            if kept is None or kept == [alias]:
                whole = next((column for column, expression in columns if expression == key), None)
                found = whole or changed_key(key, lambda c: next((column for column, e in columns if e == c), None))
                if found is not None:
                    return found
        raise Misfit(f"{', '.join(map(str, keys.values()))} of {part.name} is no column of {stream.name}")

    def canonical(self, stream: str, key: Expression) -> Expression:
        """The key of a derived stream, with the first of several columns that are always equal in place of the others."""
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

    def alone(self, part: BoundQuery) -> dict[str, tuple[Expression, ...]]:
        """The keys of a query without derived streams through which no thread goes: those of an axis over all of its
        streams. A query over derived streams has none: its rows stay where they are made."""
        if any(r.derived for r in part.streams):
            return {}
        aliases = tuple(r.alias for r in part.streams)
        for axis in axes_of(part, aliases, part.name in self.merged):
            keys = [key for of_alias in axis.keys.values() for key in of_alias]
            if set(axis.keys) == set(aliases) and not (keys and all(map(chain_keys.is_bucket, keys))):
                return dict(axis.keys)
        raise Misfit(f"{part.name} has no key that all its streams have")
