"""A random world as plain data: streams with promises, queries that come and go, and a flow of rows.

Answer   `World` has the statements of a job and the flow of what happens, each with a number of its own. What a run
         decides (where epochs end, when a process dies, which settings hold) follows from the seed and from these
         numbers, so that a world from which rows were taken keeps the rest of its life.
Limits   In a world with late rows all runs cut epochs at the same places, because which rows are late depends on them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

import pyarrow as pa

from tests.property.specs import Case, StreamSpec, arrow_table
from tests.property.world_queries import COLUMNS, STREAMS, Asked

ASKS = (("id", "BIGINT"), ("k", "INT"), ("j", "INT"), ("span", "BIGINT"), ("what", "STRING"), ("ts", "TIMESTAMP"))


@dataclass(frozen=True)
class Item:
    """Something that happens: a row comes to a stream, or a query comes or goes. Before a query comes or goes an epoch
    ends."""

    uid: int
    #: row, add or drop
    kind: str
    #: The stream, or the query.
    name: str
    row: tuple[object, ...] = ()


@dataclass(frozen=True)
class World:
    seed: int
    #: Per stream how far out of order its rows may come, and its further options as text.
    lateness: tuple[int, ...]
    options: tuple[str, ...]
    #: Statements before the queries: promises, templates, derived streams.
    before: tuple[str, ...]
    queries: tuple[Asked, ...]
    flow: tuple[Item, ...]
    late: bool
    #: The oracle knows nothing of promises: it is asked where there are none.
    promised: bool

    @property
    def final(self) -> bool:
        """Whether the streams end with the run."""
        return self.seed % 2 == 1

    def statements(self, names: frozenset[str]) -> list[str]:
        """The job with some of its queries."""
        return [*self.declarations(), *(q.statement for q in self.queries if q.name in names)]

    def declarations(self) -> list[str]:
        specs = zip(self._specs(), self.options, strict=True)
        return [*(spec.statement()[:-1] + options + ")" for spec, options in specs), *self.before]

    def _specs(self) -> tuple[StreamSpec, ...]:
        return tuple(StreamSpec(name, COLUMNS, "ts", late) for name, late in zip(STREAMS, self.lateness, strict=True))

    def statement(self, name: str) -> str:
        return next(q.statement for q in self.queries if q.name == name)

    @property
    def first(self) -> frozenset[str]:
        """The queries that stand from the beginning on."""
        return frozenset(q.name for q in self.queries) - {i.name for i in self.flow if i.kind == "add"}

    @property
    def asks(self) -> bool:
        return any("CREATE REQUESTS" in statement for statement in self.before)

    @property
    def streams(self) -> tuple[str, ...]:
        return (*STREAMS, "asks") if self.asks else STREAMS

    @property
    def results(self) -> tuple[str, ...]:
        return (*(q.name for q in self.queries), *(("asks",) if self.asks else ()))

    def arrow(self, stream: str, items: list[Item]) -> pa.Table:
        return arrow_table(ASKS if stream == "asks" else COLUMNS, [i.row for i in items])  # type: ignore[misc]

    # -- what runs decide

    def chance(self, what: str, uid: int, variant: int) -> float:
        """A number that belongs to an item, whatever other items there are."""
        return Random(f"{self.seed} {variant} {what} {uid}").random()

    def cuts(self, variant: int) -> frozenset[int]:
        """The items after which epochs end; those before queries come and go are not among them."""
        variant = 0 if self.late else variant
        often = Random(f"{self.seed} {variant} cuts").choice((0.02, 0.1, 0.3, 1.0))
        return frozenset(i.uid for i in self.flow if self.chance("cut", i.uid, variant) < often)

    def case(self, cuts: frozenset[int]) -> Case:
        """What the oracle knows of it: rows in epochs, and queries that stay."""
        stay = self.first - {i.name for i in self.flow if i.kind == "drop"}
        epochs: list[dict[str, list[tuple[object, ...]]]] = [{}]
        for item in self.flow:
            if item.kind == "row" and item.name != "asks":
                epochs[-1].setdefault(item.name, []).append(item.row)
            if item.kind != "row" or item.uid in cuts:
                epochs.append({})
        arrivals = tuple(tuple((name, tuple(rows)) for name, rows in epoch.items()) for epoch in epochs)
        queries = tuple(q.spec for q in self.queries if q.spec is not None and q.name in stay)
        return Case(self._specs(), queries, arrivals, final=self.final)  # type: ignore[arg-type]


def smaller(world: World) -> Iterator[World]:
    """Worlds with something left out, large parts first."""
    for query in world.queries if len(world.queries) > 1 else ():
        flow = tuple(i for i in world.flow if i.kind == "row" or i.name != query.name)
        yield replace(world, queries=tuple(q for q in world.queries if q is not query), flow=flow)
    size = len(world.flow)
    for width in dict.fromkeys((size // 2, size // 4, size // 8, 1)):
        for at in range(0, size, width) if width else ():
            # A query that never comes stands from the beginning; one that goes without coming is no world.
            flow = world.flow[:at] + world.flow[at + width :]
            yield replace(world, flow=flow)
    for at in range(len(world.before)):
        left = world.before[:at] + world.before[at + 1 :]
        if not world.asks or any("CREATE REQUESTS" in statement for statement in left):
            yield replace(world, before=left)
    if world.asks and not any(i.name == "asks" for i in world.flow):
        yield replace(world, before=tuple(s for s in world.before if "CREATE REQUESTS" not in s))
    for at, option in enumerate(world.options):
        if option:
            yield replace(world, options=world.options[:at] + ("",) + world.options[at + 1 :])
