"""A registered query whose rows know earlier rows of their partition: LAG, FIRST_VALUE, LAST_VALUE.

Answer   `table` gives every row of the stream once, in the order of time, with the values that its functions find.
State    What `Following` keeps per partition.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any
from uuid import uuid4

import pyarrow as pa

from eddyline.model.expressions.expression import columns_of
from eddyline.operators.expressions.evaluate import Issues
from eddyline.operators.join.combination import Combinations
from eddyline.operators.project import gather, result_schema
from eddyline.operators.ranking.followed import Following
from eddyline.runtime.engine.registered.leaving import compiled_of, computed
from eddyline.runtime.engine.registered.query import Registration, RowsQuery
from eddyline.state.blocks import Blocks, Load


class FollowedQuery(RowsQuery):
    def __init__(self, given: Registration) -> None:
        super().__init__(given)
        query, lowered = given.query, given.lowered
        self.following = [
            Following(f.function, f.type, tuple(e.type for e in f.partition), f.distance) for f in lowered.followed
        ]
        self.read = [
            (f.value, *f.partition, *(() if f.otherwise is None else (f.otherwise,))) for f in lowered.followed
        ]
        self.compiled = [[(e, compiled_of(e)) for e in parts] for parts in self.read]
        self.outputs = [(o.expression, compiled_of(o.expression)) for o in lowered.outputs]
        #: How outputs call what the functions find.
        self.names = [(0, f"_over{at}") for at in range(len(lowered.followed))]
        whole = frozenset().union(
            *(columns_of(e) for e, _ in self.outputs), *(columns_of(e) for parts in self.read for e in parts)
        )
        self.columns = whole - frozenset(self.names)
        for ref, name in self.columns:
            self.bases[ref].stream.need_column(name)
        self._schema = result_schema(lowered.outputs)
        self._name = f"followed-{blake2b(query.name.encode(), digest_size=5).hexdigest()}-{uuid4().hex[:8]}"

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def table(self, rows: Combinations, issues: Issues) -> pa.Table:
        count = len(rows)
        values = gather(self.columns, rows, self.bases)
        for name, following, followed, parts in zip(
            self.names, self.following, self.lowered.followed, self.compiled, strict=True
        ):
            value, *rest = [computed(e, c, values, count, issues) for e, c in parts]
            otherwise = None if followed.otherwise is None else rest.pop()
            values[name] = following.take(value, rest, otherwise)
        arrays = [computed(e, c, values, count, issues) for e, c in self.outputs]
        arrays.append(pa.Array.from_buffers(pa.timestamp("us"), count, [None, pa.py_buffer(rows.clock)]))
        return pa.Table.from_arrays(arrays, schema=self._schema)

    def snapshot(self) -> tuple[object, Blocks]:
        found = [following.snapshot(f"{self._name}-{at}") for at, following in enumerate(self.following)]
        blocks = {name: block for _, made in found for name, block in made.items()}
        return {"prefix": self._name, "functions": [state for state, _ in found]}, blocks

    def restore(self, state: object, load: Load) -> None:
        saved: dict[str, Any] = dict(state)  # type: ignore[call-overload]
        for following, held in zip(self.following, saved["functions"], strict=True):
            following.restore(held, load)
