"""A template of a running job: a port on its stream's shared store, and requests answered from it.

Answer   `answer(requests)` finds the (request, row) pairs through an access path, compares values whose hashes are
         equal, tests the other conditions, and groups. `TemplatePort` keeps rows for the window, the history and
         requests that wait.
State    The port, the index and its tuning. Rows lie in the stream's store, without a copy here.
Limits   The caller gives only instants below the frontier of the template's stream.
Reading  docs/operators/templates.md
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.model.datatypes import BOOLEAN
from eddyline.model.expressions.expression import Call, Expression, Literal, Literals, columns_of
from eddyline.model.joining import is_exact
from eddyline.model.query import OutputColumn
from eddyline.model.template import RequestCondition, Template, window_size
from eddyline.model.window import Range, Rows
from eddyline.operators.expressions.evaluate import Issues, compile_predicate
from eddyline.operators.join.port import Membership, Port
from eddyline.operators.stream.reading import timeline_name
from eddyline.operators.stream.stream import StreamState
from eddyline.operators.template.adjustment import Adjustment
from eddyline.operators.template.answer import Answering
from eddyline.operators.template.blocks import Fields, Together
from eddyline.operators.template.imp import Imp
from eddyline.operators.template.keys import TemplateKeys
from eddyline.operators.template.precomputed import Precomputed, serves
from eddyline.operators.template.probes import PatternProbes, Requests, columns_in
from eddyline.operators.template.rows import TemplateRows
from eddyline.operators.template.scan import Scan
from eddyline.operators.template.search import IndexLayout, IndexPricing, PatternLoad
from eddyline.operators.template.visits import Visits
from eddyline.state.columns import Ints, joined_pairs
from eddyline.state.renumbering import Renumbering
from eddyline.state.store import Store
from eddyline.tuning import TemplateTuning


class TemplatePort(Port):
    """Keeps the rows that a request may still read."""

    #: The first instant that requests that wait, or rows of a stream of requests, may need; None: there are none.
    behind: int | None = None
    history = 0
    #: Drops everything that is kept by row id.
    forget: Callable[[], None] | None = None

    def renumber(self, old_to_new: Renumbering) -> None:
        """The rows of the store have new ids: everything that is kept by row id is computed anew."""
        if self.forget is not None:
            self.forget()

    def first_needed(self, store: Store, frontier: int, seen: int) -> int:
        # A request without AS OF is about the last instant before the frontier.
        now = frontier - 1 if self.behind is None else min(frontier - 1, self.behind)
        now -= self.history
        if self.most_rows:
            # How many rows there are up to that instant: the store holds every row of the stream.
            upto = int(np.searchsorted(store.column("ts"), now, side="left"))
            seen = int(store.column(self.reader.numbers)[upto - 1]) + 1 if upto else 0
        return super().first_needed(store, now, seen)


class RegisteredTemplate:
    def __init__(
        self,
        template: Template,
        keys: tuple[OutputColumn, ...],
        aggregates: tuple[OutputColumn, ...],
        where: Expression | None,
        stream: StreamState,
        start: int,
        price: IndexPricing,
        issues: Issues,
        route: int | None = None,
        tuning: TemplateTuning | None = None,
    ) -> None:
        """`keys`, `aggregates` and `where` read one reference, the stream; the template sees rows after `start`."""
        self.template = template
        self._given = (keys, aggregates, where)
        self.stream = stream
        self.start = start
        self.issues = issues
        self.price = price
        self.tuning = tuning or TemplateTuning()
        counted = isinstance(template.window, Rows)
        reader = stream.reader(timeline_name([template.source]))
        if counted:
            reader.need_numbers()
        for expression in (*(o.expression for o in (*keys, *aggregates)), *([where] if where is not None else [])):
            for _, column in columns_of(expression):
                stream.need_column(column)
        self.port = TemplatePort(f"t-{template.name}", 0, template.source, probed=True, reader=reader, route=route)
        self.port.history = template.history
        # A ROWS template stores every row of the stream, and knows of each whether its condition holds.
        grouped, holds, stored = [o.expression for o in keys], where if counted else None, None if counted else where
        known = TemplateKeys(stream.store, grouped, holds, self.tuning.portion)
        stream.ports.append(self.port)
        window = template.window
        if not counted:
            window = Range(window.micros if isinstance(window, Range) else 0)
        self.port.join(Membership(0, stored, window, start, template.name, template.source), stream.store)
        self.rows = TemplateRows(reader, known, len(keys), counted, tuning=self.tuning)
        self.keys = keys
        #: The grouping columns whose keys are hashes, as bits.
        self._hashed = sum(1 << k for k, output in enumerate(keys) if not is_exact(output.type))
        self.visits = Visits()
        self.answering = Answering(template, keys, aggregates, self.rows)
        self.scan = Scan(self.rows, self.visits)
        self.adjustment = Adjustment(price, self.tuning)
        self.index = _index_of(template, self.rows, self.visits)
        self.port.forget = self._forget
        #: Requests answered, and by which path.
        self.answered = 0
        self.paths: dict[str, int] = {}
        self.batched = True
        self.tuned = True
        served = template.index == "auto" and self.tuning.precomputed and serves(aggregates)
        self.precomputed = Precomputed(keys, aggregates, self.rows) if served else None

    def over(
        self, rows: pa.Table, ts: Ints, numbers: Ints, routes: npt.NDArray[np.uint64] | None
    ) -> RegisteredTemplate:
        """The same template over some rows alone, which are in order."""
        stream, template = StreamState(self.stream.name, self.stream.types), replace(self.template, index="scan")
        given = template, *self._given, stream, self.start, self.price, self.issues
        found = RegisteredTemplate(*given, self.port.route, self.tuning)
        places = np.arange(len(ts))
        stream.admit(rows, ts, places, routes)
        stream.take(found.port.reader, int(ts[-1]), places, places, numbers)
        return found

    def close(self) -> None:
        """The template is dropped: its port leaves the stream."""
        self.stream.leave(self.port)

    @property
    def _fields(self) -> Fields | None:
        """The configuration of the index; None: there is no index with fields."""
        found = None if self.index is None else self.index.addressing
        return found if isinstance(found, Fields) else None

    @property
    def address_bits(self) -> tuple[int, ...] | None:
        """Bits of the index per grouping column; None: there is no such index."""
        return None if self._fields is None else self._fields.bits

    @property
    def layout(self) -> IndexLayout | None:
        """The bits of the index and the order of its fields; None: there is no such index."""
        found = self._fields
        return None if found is None else IndexLayout(found.bits, found.order or tuple(range(len(found.bits))))

    @property
    def nbytes(self) -> int:
        """Bytes beside the rows: keys, blocks of the index, groups that are kept."""
        index = 0 if self.index is None else self.index.nbytes
        return self.rows.keys.nbytes + index + (0 if self.precomputed is None else self.precomputed.nbytes)

    # -- requests

    def answer(self, requests: Requests) -> pa.Table:
        """The answers, with the number of their request in the column `_request`."""
        if not requests.count:
            return self.answering.schema.empty_table()
        found = self._from_groups(requests) if self.precomputed is not None else None
        return self._made(requests, self.answering.tables) if found is None else found

    def columns(self, requests: Requests, wanted: Sequence[tuple[bool, int]]) -> Sequence[pa.Array | pa.ChunkedArray]:
        """The columns of the answer of one request: per column whether it is a grouping column, and its number."""
        found = self._from_groups(requests) if self.precomputed is not None else None
        if found is not None:
            return self.answering.picked(found, wanted)
        self._read_lineage()
        return self.answering.columns(requests, wanted, *self._found(requests), self.issues)

    def _read_lineage(self) -> None:
        self.rows.lineage = (self.port.lineage_column, 0) if self.port.stores_lineage else None

    def _from_groups(self, requests: Requests) -> pa.Table | None:
        """The answers from groups that are kept up to date; None: a read of rows is cheaper, or groups do not suffice."""
        made = self.precomputed
        whole = window_size(self.template.window)
        if made is None or requests.ranged is not None or requests.tests or not (requests.size == whole).all():
            return None
        if not self.batched and requests.count > 1:
            return None
        self._read_lineage()
        self.rows.catch_up()
        lows, highs = self.rows.ranges(requests)
        low, high = int(lows[0]), int(highs[0])
        if not ((lows == low).all() and (highs == high).all()):
            return None
        values = self.adjustment.values(self.rows)
        otherwise, rows, layout = 0.0, float(high - low), self.layout
        for pattern, _, probes in requests.patterns():
            load = PatternLoad(pattern, float(len(probes)), rows)
            paths = [self.price.scanned(load)]
            if pattern and layout is not None:
                paths.append(self.price.read(load, values, layout))
            otherwise += min(paths)
        groups = min(float(np.prod([float(v) for v in values])), rows)
        if not made.pays(requests.count, low, high, otherwise, groups):
            return None
        if not made.move(low, high, self._values):
            made.forget()
            return None
        self.answered += requests.count
        self.paths["groups"] = self.paths.get("groups", 0) + requests.count
        pairs = made.pairs(requests, self._fields or Fields((0,) * len(self.keys)))
        return self.answering.summed(requests, *pairs, made, self.issues)

    def parts(self, requests: Requests) -> pa.Table:
        """The parts of answers that the rows here give, for `Answering.merged`."""
        return self._made(requests, self.answering.parts)

    def _made(self, requests: Requests, make: Callable[[Requests, Ints, Ints, Issues], pa.Table]) -> pa.Table:
        self._read_lineage()
        return make(requests, *self._found(requests), self.issues)

    def _found(self, requests: Requests) -> tuple[Ints, Ints]:
        """Pairs of a request's number and a row's id: the rows that count for each request."""
        self.answered += requests.count
        self.rows.catch_up()
        low, high = self.rows.ranges(requests)
        made: list[tuple[Ints, Ints]] = []
        for fixed, ranged, numbers in requests.patterns():
            if len(requests.request) == requests.count == 1:
                # One probe of one request: its number is that of its request.
                made.append(self._verified(PatternProbes(requests, fixed, ranged, numbers, low, high)))
                continue
            of = requests.request[numbers]
            probe, ids = self._verified(PatternProbes(requests, fixed, ranged, numbers, low[of], high[of]))
            made.append((requests.request[probe], ids))
        return self._tested(requests, *joined_pairs(made))

    def _pairs(self, probes: PatternProbes) -> tuple[Ints, Ints]:
        """Pairs (number of a probe, row id), by the cheaper path; keys of texts are compared by their hashes."""
        fixed, ranged, low, high = probes.fixed, probes.ranged, probes.low, probes.high
        window = float(high[0] - low[0]) if len(low) == 1 else float(np.maximum(high - low, 0).sum())
        self.adjustment.note(fixed | ranged, len(probes), window, 1 if self.batched else len(probes))
        path: Scan | Imp = self.scan
        if self.index is not None and self.index.addressing.helps(fixed, ranged):
            self.index.serve_ranges(ranged)
            if self.template.index != "auto" or self._index_is_cheaper(probes):
                path = self.index
        name = "scan" if path is self.scan else "index"
        self.paths[name] = self.paths.get(name, 0) + len(probes)
        path.shared = self.batched
        found = path.pairs(probes)
        return self.rows.within(probes.requests, ranged, *found) if ranged else found

    def _index_is_cheaper(self, probes: PatternProbes) -> bool:
        layout, count = self.layout, float(len(probes))
        assert self.index is not None and layout is not None
        rows = float(probes.high.max(initial=0) - probes.low.min(initial=0))
        # A range costs as much as one request per field that it covers, each of which fixes the column.
        load = PatternLoad(probes.fixed | probes.ranged, count * self.index.covered(probes), rows)
        scanned = self.price.scanned(PatternLoad(probes.fixed, count, rows, 1.0 if self.batched else count))
        return self.price.read(load, self.adjustment.values(self.rows), layout) < scanned

    def _verified(self, probes: PatternProbes) -> tuple[Ints, Ints]:
        """Pairs (number of a probe, row id) with equal values: keys of texts and decimals are hashes."""
        probe, ids = self._pairs(probes)
        for key in columns_in(probes.fixed & self._hashed) if len(ids) else ():
            wanted = probes.requests.values[key]
            if wanted is not None:
                here = self._values(self.keys[key].expression, ids)
                same = np.asarray(pc.equal(here, wanted.take(pa.array(probe))).fill_null(False))
                if not same.all():
                    probe, ids = probe[same], ids[same]
        return probe, ids

    def _values(self, e: Expression, ids: Ints) -> pa.Array:
        columns = {(alias, column): self.rows.values(column, ids) for alias, column in columns_of(e)}
        return self.answering.value(e, columns, len(ids), self.issues)

    def _tested(self, requests: Requests, request: Ints, ids: Ints) -> tuple[Ints, Ints]:
        """The pairs that satisfy the conditions beyond equality of their request."""
        for number, condition in requests.tests:
            mine = np.flatnonzero(request == number)
            if not len(mine):
                continue
            expression = _as_expression(condition, self.keys[condition.key])
            columns = {(alias, column): self.rows.values(column, ids[mine]) for alias, column in columns_of(expression)}
            holds = compile_predicate(expression)(columns, len(mine), self.issues)
            kept = np.ones(len(request), np.bool_)
            kept[mine[~np.asarray(holds)]] = False
            request, ids = request[kept], ids[kept]
        return request, ids

    def _forget(self) -> None:
        """Rows have new ids."""
        self.rows.keys.forget()
        if self.index is not None:
            self.index.forget()
        if self.precomputed is not None:
            self.precomputed.forget()

    # -- epochs

    def after_epoch(self) -> None:
        """Purge the index, choose its configuration anew, rebuild a few blocks. Before the first request it does
        nothing."""
        self.adjustment.after_epoch(self.stream.store.end)
        index = self.index
        if not self.rows.keys.upto:
            return
        # Requests do not wait for the keys of rows that came before them.
        self.rows.catch_up()
        if index is None:
            return
        index.purge()
        layout, fields = self.layout, self._fields
        if self.tuned and self.adjustment.due and layout is not None and fields is not None:
            # Bits that are given stay; the order of their fields follows the requests.
            given = None if self.template.index == "auto" else layout.bits
            changed = self.adjustment.choose(self.rows, layout, float(self.stream.store.live), given)
            if changed is not None:
                index.reconfigure(Fields(changed.bits, fields.ranged, changed.order))
        for first in index.stale()[: self.tuning.rebuilt_per_epoch]:
            index.rebuild(first)

    # -- snapshots

    def saved(self) -> dict[str, object]:
        layout = self.layout
        bits, order = (None, None) if layout is None else (list(layout.bits), list(layout.order))
        return {"bits": bits, "order": order, "tuning": self.adjustment.saved(), "answered": self.answered}

    def restore(self, saved: dict[str, object]) -> None:
        # Checkpoints of earlier versions know no order.
        bits, order = saved["bits"], saved.get("order") or ()
        if bits is not None and self.index is not None and self.template.index == "auto":
            self.index.reconfigure(Fields(tuple(bits), order=tuple(order)))  # type: ignore[arg-type]
        self.adjustment.restore(saved["tuning"])  # type: ignore[arg-type]
        self.answered = int(saved["answered"])  # type: ignore[call-overload]


def _index_of(template: Template, rows: TemplateRows, visits: Visits) -> Imp | None:
    count = len(template.keys)
    if template.index == "scan":
        return None
    if template.index.startswith("hash("):
        names = template.index[5:-1].split(",")
        columns = tuple(c for c, key in enumerate(template.keys) if key.name.lower() in {n.lower() for n in names})
        return Imp(rows, Together(columns, template.bits), visits)
    if template.index.startswith("imp("):
        return Imp(rows, Fields(tuple(int(b) for b in re.findall(r"[0-9]+", template.index))), visits)
    # The first configuration: equal shares, the first columns get what is left over.
    bits = min(template.bits, 13) if template.index == "auto" else template.bits
    return Imp(rows, Fields(tuple(bits // count + (c < bits % count) for c in range(count))), visits)


def _as_expression(condition: RequestCondition, key: OutputColumn) -> Expression:
    if condition.kind == "null":
        return Call("is_null", (key.expression,), BOOLEAN)
    values = condition.values
    if condition.kind == "in" and len(values) > 1 and not any(v is None or isinstance(v, Call) for v in values):
        return Call("in", (key.expression, Literals(values, key.type)), BOOLEAN)
    operands = tuple(v if isinstance(v, Call) else Literal(v, key.type) for v in values)
    return Call(condition.kind, (key.expression, *operands), BOOLEAN)
