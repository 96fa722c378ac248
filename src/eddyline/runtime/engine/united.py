"""What all parts of a UNION ALL have finished: punctuations of the stream that they make together.

Answer   `United.take` gets the values that each part has finished in an epoch and gives those that now every part has:
         at the latest of their instants.
State    Values that some parts have finished and others have not, by the columns that they name.
Limits   Parts finish a value together if they name it in the same columns. A value that one part never names waits for
         ever: about 24 bytes, a text its length more.
Reading  docs/punctuations.md
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import uuid4

import numpy as np
import pyarrow as pa

from eddyline.model.schema import Stream
from eddyline.operators.promises.covering import alike
from eddyline.operators.stream.keys import combined, keys_of
from eddyline.state.blocks import Blocks, Load, held_blocks
from eddyline.state.closed import codes_of
from eddyline.state.columns import Ints

_PART, _TS = "_part", "_ts"


class United:
    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._types = {column.name: column.type for column in stream.schema.columns}
        #: Columns -> lines: their values, the part and the instant.
        self._waiting: dict[tuple[str, ...], pa.Table] = {}
        self._run = uuid4().hex[:8]
        self._version = 0

    def take(self, told: Mapping[str, Sequence[pa.Table]]) -> list[pa.Table]:
        """Lines of parts, by the name of the part, to lines of the stream; each has a value in the columns that it
        names, and `_ts`."""
        fresh: dict[tuple[str, ...], list[pa.Table]] = {}
        names = self.stream.schema.names[:-1]
        for part, tables in told.items():
            number = self.stream.makers.index(part)
            for table in tables:
                lines = pa.table([*table.columns[: len(names)], table.column(_TS).cast(pa.int64())], [*names, _TS])
                lines = lines.append_column(_PART, pa.array(np.full(len(lines), number, np.int32)))
                for chosen, columns in alike(lines, names):
                    fresh.setdefault(tuple(columns), []).append(
                        lines.select([*columns, _PART, _TS]).take(pa.array(chosen))
                    )
        found = []
        for given, tables in fresh.items():
            found += self._finished(given, pa.concat_tables(tables))
        return found

    def _finished(self, given: tuple[str, ...], fresh: pa.Table) -> list[pa.Table]:
        """The values among new lines that every part has finished by now; the others wait."""
        self._version += 1
        lines, waiting = fresh, self._waiting.get(given)
        if waiting is not None:
            # Hashes are compared first: values that no new line names stay where they are.
            touched = np.isin(self._keys(waiting, given), self._keys(fresh, given))
            lines = pa.concat_tables([waiting.filter(pa.array(touched)), fresh])
            waiting = waiting.filter(pa.array(~touched))
        codes = codes_of(lines.select(list(given)))
        part = np.asarray(lines.column(_PART)).astype(np.int64)
        parts = len(self.stream.makers)
        done = np.bincount(np.unique(codes * parts + part) // parts, minlength=int(codes.max(initial=-1)) + 1) == parts
        rest = lines.filter(pa.array(~done[codes]))
        self._waiting[given] = (rest if waiting is None else pa.concat_tables([waiting, rest])).combine_chunks()
        if not done.any():
            return []
        instants = np.full(len(done), np.iinfo(np.int64).min)
        np.maximum.at(instants, codes, np.asarray(lines.column(_TS)))
        chosen = np.unique(codes, return_index=True)[1]
        chosen = chosen[done[codes[chosen]]]
        body = lines.select(list(given)).take(pa.array(chosen))
        columns = [
            body.column(name) if name in given else pa.nulls(len(chosen), self._types[name].arrow)
            for name in self.stream.schema.names[:-1]
        ]
        instant = pa.array(instants[codes[chosen]]).cast(pa.timestamp("us"))
        return [pa.table([*columns, instant], [*self.stream.schema.names[:-1], _TS])]

    def _keys(self, lines: pa.Table, given: Sequence[str]) -> Ints:
        return combined([keys_of(lines.column(name).combine_chunks(), self._types[name]) for name in given])

    # -- snapshots

    def saved(self, blocks: Blocks) -> list[list[object]]:
        """What the header of a snapshot holds; tables are added to `blocks`."""
        found: list[list[object]] = []
        for number, (given, lines) in enumerate(self._waiting.items()):
            held = held_blocks(f"united-{self.stream.name}-{self._run}-{self._version}", {str(number): lines})
            blocks |= held
            found.append([list(given), *held])
        return found

    def restore(self, saved: Sequence[Sequence[object]], load: Load) -> None:
        for given, name in saved:
            assert isinstance(given, list) and isinstance(name, str)
            self._waiting[tuple(given)] = load(name).combine_chunks()
