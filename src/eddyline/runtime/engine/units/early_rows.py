"""Rows of a template's stream that a stream of requests has reached and the template has not.

Answer   A stream that is idle or has ended holds its requests back no longer, while the template, which reads it alone,
         waits for its horizon. The rows in between belong to the answers: `parts` gives what they add, `fewer` the
         requests that are left for the template's own rows.
State    These rows, until the template reaches them: none while the stream brings rows.
Limits   Rows that come later and are late for the requests count for them once the template has stored them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa

from eddyline.model.window import Rows
from eddyline.operators.stream.intake import event_times
from eddyline.operators.template.probes import Requests
from eddyline.operators.template.registered import RegisteredTemplate
from eddyline.runtime.engine.unit import Slice
from eddyline.state.blocks import Blocks, Load

_NUMBER, _ROUTES = "_number", "_routes"


class EarlyRows:
    def __init__(self, registered: RegisteredTemplate, time: str) -> None:
        self._registered = registered
        self._source = registered.template.source
        self._time = time
        #: Rows in order, with their numbers and the routes that sent them.
        self._held: list[pa.Table] = []
        self._run = uuid4().hex[:8]
        self._version = 0

    def __len__(self) -> int:
        return sum(len(table) for table in self._held)

    def take(self, part: Slice, reached: int | None) -> None:
        """Rows that the requests have reached; the template has those below `reached`."""
        ts = part.ts.get(self._source)
        if ts is None or (reached is not None and int(ts[-1]) < reached):
            return
        table = part.tables[self._source].append_column(_NUMBER, pa.array(part.numbers[self._source]))
        routes = part.routes[self._source]
        self._held.append(table if routes is None else table.append_column(_ROUTES, pa.array(routes)))
        self._version += 1

    def trim(self, reached: int | None) -> None:
        """The template has reached the rows below an instant."""
        if reached is None or not self._held:
            return
        kept = []
        for table in self._held:
            cut = int(np.searchsorted(event_times(table, self._time), reached))
            kept += [table.slice(cut)] if cut < len(table) else []
        self._held = kept
        self._version += 1

    # -- answers

    def parts(self, requests: Requests) -> pa.Table:
        """What these rows add to the answers."""
        whole = pa.concat_tables(self._held, promote_options="default").combine_chunks()
        routes = None
        if _ROUTES in whole.column_names:
            routes = whole.column(_ROUTES).fill_null(np.iinfo(np.uint64).max).to_numpy().astype(np.uint64)
        rows = whole.select([name for name in whole.column_names if name not in (_NUMBER, _ROUTES)])
        return self._registered.over(
            rows, event_times(rows, self._time), whole.column(_NUMBER).to_numpy(), routes
        ).parts(requests)

    def fewer(self, requests: Requests) -> Requests:
        """The requests for the rows before these: a window of ROWS is used up in part."""
        if not isinstance(self._registered.template.window, Rows):
            return requests
        times = np.concatenate([event_times(table, self._time) for table in self._held])
        return replace(
            requests, size=np.maximum(requests.size - np.searchsorted(times, requests.instant, side="right"), 0)
        )

    # -- snapshots

    def saved(self, name: str, blocks: Blocks) -> str | None:
        """The name of the block with these rows; None: there are none."""
        if not self._held:
            return None
        block = f"requests-{name}-ahead-{self._run}-{self._version}"
        held = list(self._held)
        blocks[block] = lambda: pa.concat_tables(held, promote_options="default").combine_chunks()
        return block

    def restore(self, saved: Mapping[str, Any], load: Load) -> None:
        self._held = [] if saved["ahead"] is None else [load(saved["ahead"])]
