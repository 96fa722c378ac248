"""Numbers of `tuning.py` that decide between two ways of working, each measured on both sides of its value.

Answer   `question`: nanoseconds of a question that demand asks zones, whatever its rows. `by_key`: the share of the
         tests of a scan that is saved where pairs are tested by their keys. `sort`: nanoseconds per row of a filtered
         batch, as a whole and without stretches that all ranges miss. `zone_sort`: scans of zones that are sorted and
         of zones that are not, by probing rows and by matching keys. `least_piece` and `most_groups`: CPU of the same
         requests with other values. `moved`: searches that unchanged requests cause, and requests until a change is
         followed, with other values.
Limits   CPU time of this process, the least of a few rounds that take turns. Counts of searches repeat exactly.
Reading  `python -m bench.micro.thresholds [question by_key sort zone_sort least_piece most_groups moved]`
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from time import process_time, process_time_ns
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline import Session
from eddyline.kernels.joins import zones
from eddyline.kernels.joins.probe import ProbeKeys
from eddyline.model.datatypes import BIGINT, BOOLEAN
from eddyline.model.expressions.expression import Call, ColumnRef, Literal
from eddyline.operators.join.demand.partners import PartnerZones
from eddyline.operators.join.zones import policy
from eddyline.operators.sharing.grouped_filter import GroupedFilter
from eddyline.operators.worth import Worth
from eddyline.settings import Settings
from eddyline.tuning import TemplateTuning, Tuning, ZoneTuning

SECOND = 1_000_000
ROUNDS = 5


def _times(first: int, count: int, step: int = SECOND) -> pa.Array:
    return pa.array((first + np.arange(count)) * step, pa.timestamp("us"))


# -- zones


def question() -> None:
    """A just-in-time join of three streams whose zones are always asked; calls are timed, and fitted as fixed +
    rows."""
    asked: list[tuple[int, int]] = []
    plain = PartnerZones.may_have

    def timed(self: PartnerZones, opposite, links, bases, ids, chosen, worth, counters):  # type: ignore[no-untyped-def]
        began = process_time_ns()
        found = plain(self, opposite, links, bases, ids, chosen, worth, counters)
        count = len(next(iter(ids.values()))) if chosen is None else len(chosen)
        if count and opposite.store.live:
            asked.append((count * len(links), process_time_ns() - began))
        return found

    PartnerZones.may_have = timed  # type: ignore[method-assign]
    try:
        for rows in (64, 256, 1_024, 4_096):
            with Session(Settings(jit="exact", heralds="on", plan="((a b) c)"), keep_results=False) as session:
                for name in "abc":
                    session.execute(f"CREATE STREAM {name} (x BIGINT, y BIGINT, ts TIMESTAMP) WITH (time = 'ts')")
                window = "[RANGE 8000 SECONDS]"
                session.query("q", f"SELECT a.x FROM a {window}, b {window}, c {window} WHERE a.x = b.x AND b.y = c.y")
                random = np.random.default_rng(5)
                for epoch in range(12):
                    for name in "abc":
                        columns = {"x": random.integers(0, 2_000, rows), "y": random.integers(0, 2_000, rows)}
                        session.push(name, pa.table({**columns, "ts": _times(epoch * rows, rows)}))
                    session.step()
    finally:
        PartnerZones.may_have = plain  # type: ignore[method-assign]
    counts, spent = np.array(asked, np.float64).T
    # The least time of calls of about equal size: a busy machine only adds.
    sizes = np.unique(np.round(np.log2(counts)))
    least = np.array(
        [
            (counts[near][at := int(np.argmin(spent[near]))], spent[near][at])
            for s in sizes
            if (near := np.round(np.log2(counts)) == s).any()
        ]
    )
    each, fixed = np.polyfit(least[:, 0], least[:, 1], 1)
    print(f"question: {len(asked)} questions, {fixed:,.0f} ns each and {each:.1f} ns per key; medians: ", end="")
    print(
        ", ".join(f"{2 ** int(s)} keys {np.median(spent[np.round(np.log2(counts)) == s]) / 1e3:.0f} µs" for s in sizes)
    )


def by_key() -> None:
    """A scan of 2,000 rows per side whose conditions are differences, with bounds of keys and without; one condition
    and two."""
    bounds = policy.bounds_of

    def run(condition: str, with_bounds: bool) -> tuple[float, int]:
        policy.bounds_of = bounds if with_bounds else lambda *_: None  # type: ignore[assignment]
        with Session(Settings(heralds="on"), keep_results=False) as session:
            for name in "ab":
                session.execute(f"CREATE STREAM {name} (x BIGINT, y BIGINT, ts TIMESTAMP) WITH (time = 'ts')")
            session.query("q", f"SELECT a.x FROM a [RANGE 10000 SECONDS], b [RANGE 10000 SECONDS] WHERE {condition}")
            random = np.random.default_rng(5)
            session.step()
            for name in "ab":
                columns = {"x": random.integers(0, 1_000_000, 2_000), "y": random.integers(0, 1_000_000, 2_000)}
                session.push(name, pa.table({**columns, "ts": _times(0, 2_000)}))
            began = process_time()
            session.run(final=False)
            return process_time() - began, session.stats()["results"]["q"]

    try:
        for width in (1_000, 100_000, 500_000):
            one = f"a.x <= b.x + {width} - 1000000"
            for name, condition in (("one", one), ("two", f"a.x <= b.x + {width} AND b.x <= a.x + {width}")):
                least = {way: min(run(condition, way)[0] for _ in range(ROUNDS)) for way in (True, False)}
                results = run(condition, True)[1]
                saved = 1 - least[True] / least[False]
                print(
                    f"by_key: {name} condition, {results / 4e6:.1%} of pairs match: {least[False] * 250:.1f} ns per pair tested, "
                    f"{least[True] * 250:.1f} by keys; {saved:.0%} saved"
                )
    finally:
        policy.bounds_of = bounds


def sort() -> None:
    """A batch whose stretches of 64 rows lie in the half of the domain that ranges cover, or in the other one."""
    column = ColumnRef("s", "x", BIGINT)

    def filters(ranges: int, asks: bool) -> GroupedFilter:
        made = GroupedFilter(worth=Worth(ZoneTuning(rows=64 if asks else 1 << 40), is_open=False))
        for slot, low in enumerate(np.linspace(0, 500_000, ranges).astype(int).tolist()):
            ends = [Call(sign, (column, Literal(end, BIGINT)), BOOLEAN) for sign, end in ((">=", low), ("<", low + 50))]
            made.add(slot, Call("and", tuple(ends), BOOLEAN), "s")
        return made

    def run(way: GroupedFilter, batch: pa.Array, times: int) -> float:
        began = process_time()
        for _ in range(times):
            way.match_pairs({"x": batch}, len(batch))
        return (process_time() - began) / times / len(batch) * 1e9

    random = np.random.default_rng(5)
    for ranges, rows in product((100, 2_000), (1_000, 2_000, 4_000, 20_000)):
        ways, found = (filters(ranges, False), filters(ranges, True)), []
        for share in (0.0, 0.2, 0.35, 0.5, 0.9):
            stretches = -(-rows // 64)
            missed = random.permutation(stretches) < round(share * stretches)
            values = random.integers(0, 500_000, rows) + 500_100 * np.repeat(missed, 64)[:rows]
            least = [min(run(way, pa.array(values), 40_000 // rows) for _ in range(4 * ROUNDS)) for way in ways]
            found.append(f"{share:.0%} {least[0]:.0f} → {least[1]:.0f}")
        print(
            f"sort: {ranges:,} ranges, {rows:,} rows; ns per row by the share that ranges miss, → with stretches: "
            + ", ".join(found)
        )


def zone_sort() -> None:
    """Probing rows against 100 zones of 64 rows in no order, one band of keys per row: the kernel with other
    constants."""
    source = Path(zones.__file__).read_text().replace("cache=True, ", "")
    assert "_FEW, _MANY = 8, 32" in source

    def kernel(few: int, many: int) -> Any:
        names: dict[str, Any] = {"__name__": "varied"}
        exec(source.replace("_FEW, _MANY = 8, 32", f"_FEW, _MANY = {few}, {many}"), names)
        return names["within_stretches"]

    random = np.random.default_rng(5)
    stored = 6_400
    keys, order, dead = random.integers(0, 64_000, (1, stored)), np.arange(stored), np.zeros(stored, np.int64)
    cuts = np.arange(0, stored + 1, 64)

    def run(way: Any, asked: int, matching: int) -> float:
        """Nanoseconds per pair; a band has so many keys of a zone."""
        least = random.integers(0, 64_000 - 1_000 * matching + 1, (1, asked))
        within = zones.Within(keys, np.empty((1, 0), np.bool_), False, least, least + 1_000 * matching - 1)
        laid = zones.Laid(False, order, order, dead, 0, True)
        asking = ProbeKeys(np.zeros(asked, np.int64), np.full(asked, stored), np.zeros(asked, np.int64))
        cells = zones.ZoneCells(np.array([0, asked]), cuts, np.zeros((1, 100), np.int64))
        times = max(1, 256 // asked)
        began = process_time()
        for _ in range(times):
            way(asking, laid, cells, np.array([False]), within)
        return (process_time() - began) / times / (asked * stored) * 1e9

    never, always, scans = kernel(8, 1 << 40), kernel(8, 1), kernel(0, 1)
    places = kernel(64, 1)
    for way in (never, always, scans, places):
        run(way, 1, 1)
    rounds = range(4 * ROUNDS)
    for matching in (1, 4):
        parts = []
        for asked in (4, 8, 16, 32, 64, 256):
            least = [min(run(way, asked, matching) for _ in rounds) for way in (never, always)]
            parts.append(f"{asked} rows {least[0]:.2f} → {least[1]:.2f}")
        print(f"zone_sort: {matching} of 64 keys match; ns per pair, scanned → zones sorted: " + ", ".join(parts))
    parts = []
    for matching in (1, 2, 4, 8, 12, 16, 32):
        least = [min(run(way, 512, matching) for _ in rounds) for way in (scans, places)]
        parts.append(f"{matching} keys {least[0]:.2f} → {least[1]:.2f}")
    print("zone_sort: 512 rows, zones sorted; ns per pair, scan → keys put in order of place: " + ", ".join(parts))


# -- templates


def _template(tuning: TemplateTuning, window: int, values: int, index: str = "auto") -> Session:
    session = Session(Settings(tuning=Tuning(templates=tuning)), keep_results=False)
    session.execute(
        "SET epoch_rows = 10000000; CREATE STREAM r (a INT, b INT, v INT, ts TIMESTAMP) WITH (time = 'ts');"
        f"CREATE TEMPLATE t WITH (index = '{index}', bits = 12) AS SELECT a, b, SUM(v) AS total, COUNT(*) AS n "
        f"FROM r [RANGE {window - 1} SECONDS] GROUP BY a, b;"
    )
    session.step()
    return session


def _push(session: Session, random: np.random.Generator, first: int, count: int, values: int) -> None:
    columns = {name: pa.array(random.integers(0, values, count), pa.int32()) for name in "ab"}
    session.push("r", pa.table({**columns, "v": np.ones(count, np.int32), "ts": _times(first, count)}))


def _in_turns(ways: list[object], run: Callable[[object], float], rounds: int = ROUNDS) -> dict[object, float]:
    least: dict[object, float] = {}
    for _ in range(rounds):
        for way in ways:
            seconds = run(way)
            least[way] = min(seconds, least.get(way, seconds))
    return least


def least_piece() -> None:
    """A window of 65,536 rows that slides over two blocks, 1,024 rows and some requests per epoch."""
    for requests in (8, 128):

        def run(piece: object, requests: int = requests) -> float:
            tuning = TemplateTuning(least_piece=piece, precomputed=False)  # type: ignore[arg-type]
            with _template(tuning, 65_536, 2_048, "hash(a)") as session:
                random = np.random.default_rng(22)
                _push(session, random, 0, 65_536, 2_048)
                session.step()
                began = process_time()
                for epoch in range(64):
                    _push(session, random, 65_536 + 1_024 * epoch, 1_024, 2_048)
                    session.step()
                    asked = random.integers(0, 2_048, requests)
                    session.request([f"total FROM t WHERE a = {value}" for value in asked])
                return process_time() - began

        found = _in_turns([4, 16, 32, 64, 128], run, 3)
        best = min(found.values())
        print(
            f"least_piece, {requests} requests per 1,024 rows: "
            + ", ".join(f"{piece}: {found[piece] / best:.3f}" for piece in found)
        )


def most_groups() -> None:
    """Nine requests and 500 new rows per epoch, ever more groups in a window of 20,000 rows: from groups that are kept,
    and from rows."""
    window = 20_000
    shares: dict[int, float] = {}
    stands: dict[int, bool] = {}
    for share in (0.02, 0.1, 0.25, 0.4, 0.8, 1.6):
        values = int((share * window) ** 0.5)

        def run(kept: object, values: int = values) -> float:
            tuning = TemplateTuning(precomputed=bool(kept), most_groups=1e9)
            with _template(tuning, window, values) as session:
                random = np.random.default_rng(22)
                _push(session, random, 0, window, values)
                session.step()
                for epoch in range(24):
                    if epoch == 4:
                        began = process_time()
                    _push(session, random, window + 500 * epoch, 500, values)
                    session.step()
                    session.request(["a, b, total FROM t", *(f"{key}, total FROM t" for key in "ab" * 4)])
                groups = len(session.request("a, b, total FROM t"))
                shares[values] = groups / window
                registered = session.pipeline.kinds.templates.unit("t").registered
                if registered.precomputed is not None:
                    stands[values] = registered.precomputed.has_groups
                return process_time() - began

        found = _in_turns([True, False], run, 3)
        print(
            f"most_groups: groups are {shares[values]:.2f} of the rows: {found[True] / found[False]:.3f} of the time from rows",
            end="",
        )
        print("" if stands[values] else "; they are never worth keeping")


def moved() -> None:
    """Requests of three patterns with the same shares throughout, then with others: searches, and requests until the
    index follows."""
    for shares, factor in ((0.05, 1.1), (0.1, 1.3), (0.15, 1.5), (0.3, 2.0), (0.6, 4.0)):
        tuning = TemplateTuning(moved_shares=shares, moved_factor=factor, precomputed=False)
        with _template(tuning, 20_000, 512) as session:
            random = np.random.default_rng(22)
            _push(session, random, 0, 20_000, 512)
            session.step()
            adjustment = session.pipeline.kinds.templates.unit("t").registered.adjustment
            counts = []
            at = 20_000
            for weights in ((0.7, 0.2, 0.1), (0.1, 0.2, 0.7)):
                searches, changes, followed = adjustment.searches, adjustment.changes, None
                for turn in range(100):
                    _push(session, random, at, 200, 512)
                    at += 200
                    session.step()
                    kinds = random.choice(3, 100, p=weights)
                    drawn = random.integers(0, 512, (100, 2))
                    texts = (("a = {0}",), ("a = {0} AND b = {1}",), ("b = {1}",))
                    session.request(
                        [
                            f"total FROM t WHERE {texts[kind][0].format(*two)}"
                            for kind, two in zip(kinds, drawn, strict=True)
                        ]
                    )
                    if followed is None and adjustment.changes > changes:
                        followed = 100 * (turn + 1)
                counts.append((adjustment.searches - searches, followed))
            (still, _), (after, followed) = counts
            print(
                f"moved_shares {shares}, moved_factor {factor}: {still} searches in 10 looks at unchanged shares, ",
                end="",
            )
            print(f"{after} in 10 after a change, which is followed after {followed} requests")


PARTS = {
    "question": question,
    "by_key": by_key,
    "sort": sort,
    "zone_sort": zone_sort,
    "least_piece": least_piece,
    "most_groups": most_groups,
    "moved": moved,
}


def main() -> None:
    for name in sys.argv[1:] or PARTS:
        PARTS[name]()


if __name__ == "__main__":
    main()
