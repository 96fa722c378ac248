"""Synthetic streams: auction, sensors, clique, orders, nexmark.

Answer   Each function writes parquet files below a folder and returns their paths, with the CREATE statements that read
         them. The same arguments write the same rows, on any machine.
State    None.
Limits   Whole columns in memory. Files of an earlier call in the same folder are replaced.
Reading  clique: the data of "just-in-time processing" (one column per pair of sources). orders: see workflow.py.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from inspect import Parameter, signature
from itertools import combinations
from string import ascii_lowercase
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from eddyline.connectors.generators.draws import (
    SECOND,
    GeneratorShape,
    arrival_order,
    event_times,
    keys,
    rng_for,
    texts,
)
from eddyline.connectors.generators.nexmark import events
from eddyline.connectors.generators.workflow import OrderTraces, order_events
from eddyline.errors import UserError

_SQL = {pa.int64(): "BIGINT", pa.float64(): "DOUBLE", pa.string(): "STRING", pa.timestamp("us"): "TIMESTAMP"}


@dataclass
class Generated:
    """The files that a generator has written."""

    folder: str
    #: Per stream or table, its folder or file.
    paths: dict[str, str] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    #: Ready to paste into a job file.
    statements: list[str] = field(default_factory=list)

    def write_stream(
        self, name: str, columns: Mapping[str, object], times: np.ndarray, shape: GeneratorShape, seed_name: str = ""
    ) -> None:
        """Write rows with ascending `times` in the order in which they arrive."""
        table = pa.table(columns)
        order = arrival_order(rng_for(shape.seed, f"{seed_name or name} order"), times, shape)
        if not np.array_equal(order, np.arange(len(order))):
            table = table.take(pa.array(order))
        path = os.path.join(self.folder, name)
        # A stream over the folder would read the files of an earlier call, too.
        os.makedirs(path, exist_ok=True)
        for earlier in glob.glob(os.path.join(glob.escape(path), "part-*.parquet")):
            os.remove(earlier)
        borders = np.linspace(0, table.num_rows, shape.files + 1).astype(np.int64).tolist()
        for part in range(shape.files):
            rows = table.slice(borders[part], borders[part + 1] - borders[part])
            pq.write_table(rows, os.path.join(path, f"part-{part:05d}.parquet"), row_group_size=131_072)
        self._declare("STREAM", name, path, table, f", time = 'ts', lateness = '{shape.disorder:g} seconds'")

    def write_table(self, name: str, columns: Mapping[str, object]) -> None:
        table, path = pa.table(columns), os.path.join(self.folder, f"{name}.parquet")
        os.makedirs(self.folder, exist_ok=True)
        pq.write_table(table, path)
        self._declare("TABLE", name, path, table, "")

    def _declare(self, kind: str, name: str, path: str, table: pa.Table, more: str) -> None:
        self.paths[name], self.rows[name] = path, table.num_rows
        columns, quoted = ", ".join(f"{f.name} {_SQL[f.type]}" for f in table.schema), path.replace("'", "''")
        options = f"format = 'parquet', path = '{quoted}'{more}"
        self.statements.append(f"CREATE {kind} {name} ({columns})\n  WITH ({options});")


def options_of(generator: Callable[..., Generated]) -> dict[str, Any]:
    """The options of a generator beside its folder and shape, with their defaults."""
    known = [*signature(generator).parameters.values()]
    if any(option.kind is Parameter.VAR_KEYWORD for option in known):
        known += signature(OrderTraces).parameters.values()
    return {option.name: option.default for option in known if option.name not in ("folder", "shape", "traces")}


def auction(
    folder: str,
    shape: GeneratorShape | None = None,
    *,
    bids_per_auction: float = 10.0,
    open_seconds: float = 300.0,
    categories: int = 10,
    sellers: int = 1_000,
    bidders: int = 10_000,
) -> Generated:
    """Auctions with closing times, bids on those that are open, and a table of categories. `rate` is that of bids."""
    shape = shape or GeneratorShape()
    if bids_per_auction <= 0 or open_seconds <= 0:
        raise UserError("auctions need bids and time", hint="bids_per_auction and open_seconds above 0")
    rng = rng_for(shape.seed, "auctions")
    few = replace(shape, rate=shape.rate / bids_per_auction)
    opened = event_times(rng, few)
    count = len(opened)
    length = open_seconds * SECOND * (0.5 + rng.random(count))
    closes = opened + length.astype(np.int64)
    names = texts(keys(rng, count, categories, shape.skew), "category_")
    worth = np.round(np.exp(rng.normal(4.0, 0.8, count)), 2)
    auctions = {
        "item_id": np.arange(1, count + 1),
        "category": names,
        "seller": keys(rng, count, sellers, shape.skew),
        "reserve": worth,
        "closes": _times(closes),
        "ts": _times(opened),
    }
    rng = rng_for(shape.seed, "bids")
    times = event_times(rng, shape, offset=0.5)
    item = _open_items(rng, times, opened, closes, shape.skew, open_seconds)
    progress = ((times - opened[item]) / (closes - opened)[item]).clip(0, 1)
    bids = {
        "item_id": item + 1,
        "bidder": keys(rng, len(times), bidders, shape.skew),
        "price": np.round(worth[item] * (0.5 + progress) * np.exp(rng.normal(0.0, 0.1, len(times))), 2),
        "ts": _times(times),
    }
    done = Generated(folder)
    done.write_stream("auctions", auctions, opened, few)
    done.write_stream("bids", bids, times, shape)
    every = texts(np.arange(1, categories + 1), "category_")
    done.write_table("categories", {"category": every, "vat": np.resize([0.07, 0.19, 0.0, 0.25], categories)})
    return done


def _open_items(
    rng: np.random.Generator,
    times: np.ndarray,
    opened: np.ndarray,
    closes: np.ndarray,
    skew: float,
    open_seconds: float,
) -> np.ndarray:
    """For each bid an auction that is open at its time; with skew, auctions that opened lately are more frequent."""
    high = np.searchsorted(opened, times, side="right")
    low = np.minimum(np.searchsorted(opened, times - int(1.5 * open_seconds * SECOND)), high - 1)
    # Of sixteen draws one is an open auction for nearly every bid; the others get the newest auction.
    item = high - 1
    left = np.arange(len(times))
    for _ in range(16):
        back = rng.random(len(left)) ** (1 + skew)
        drawn = high[left] - 1 - (back * (high - low)[left]).astype(np.int64)
        is_open = closes[drawn] > times[left]
        item[left[is_open]] = drawn[is_open]
        left = left[~is_open]
    return item


def sensors(folder: str, shape: GeneratorShape | None = None, *, locations: int = 100) -> Generated:
    """Temperature, humidity and light, each measured at random places of `locations`. `rate` is that of each stream."""
    shape = shape or GeneratorShape()
    done = Generated(folder)
    for name, unit, mean, swing, noise in [
        ("temperature", "celsius", 18.0, 8.0, 0.5),
        ("humidity", "percent", 55.0, 20.0, 2.0),
        ("light", "lux", 400.0, 390.0, 15.0),
    ]:
        rng = rng_for(shape.seed, name)
        times = event_times(rng, shape, offset=rng.random())
        place = keys(rng, len(times), locations, shape.skew)
        character = rng.normal(0.0, 0.3, locations)[place - 1]
        day = np.sin((times % (86_400 * SECOND)) / (86_400 * SECOND) * 2 * np.pi - np.pi / 2)
        value = mean + swing * (day * 0.7 + character) + rng.normal(0.0, noise, len(times))
        if name != "temperature":
            value = value.clip(0.0, 100.0 if name == "humidity" else None)
        done.write_stream(name, {"location": place, unit: np.round(value, 2), "ts": _times(times)}, times, shape)
    return done


def clique(
    folder: str, shape: GeneratorShape | None = None, *, sources: int = 4, dmax: int = 200, last_factor: int = 1
) -> Generated:
    """Streams a, b, c, … with one column per pair, uniform in 1..dmax; those of the last stream in 1..dmax *
    last_factor."""
    shape = shape or GeneratorShape(rate=1.0, seconds=18_000.0)
    if not 2 <= sources <= len(ascii_lowercase):
        raise UserError(f"a clique of {sources} sources cannot be made", hint="2 to 26 sources")
    pairs = list(combinations(range(sources), 2))
    done = Generated(folder)
    for source in range(sources):
        name = ascii_lowercase[source]
        rng = rng_for(shape.seed, f"clique {name}")
        times = event_times(rng, shape, offset=source / sources)
        domain = dmax * (last_factor if source == sources - 1 else 1)
        columns = {
            f"x{i + 1}": keys(rng, len(times), domain, shape.skew) for i, pair in enumerate(pairs) if source in pair
        }
        done.write_stream(name, {**columns, "ts": _times(times)}, times, shape, seed_name=f"clique {name}")
    return done


def orders(folder: str, shape: GeneratorShape | None = None, *, values: int = 400, **traces: Any) -> Generated:
    """Events of online orders, many traces interleaved; `traces` are fields of `OrderTraces`."""
    shape = shape or GeneratorShape()
    trace, kind, times = order_events(rng_for(shape.seed, "orders"), shape, OrderTraces(**traces))
    rng = rng_for(shape.seed, "order values")
    columns = {
        "trace_id": trace,
        "type": kind,
        "customer": keys(rng, len(times), values, shape.skew),
        "quantity": keys(rng, len(times), values, shape.skew),
        "price": keys(rng, len(times), values, shape.skew),
        "item": texts(keys(rng, len(times), values, shape.skew), "item_"),
        "region": texts(keys(rng, len(times), values, shape.skew), "region_"),
        "ts": _times(times),
    }
    done = Generated(folder)
    done.write_stream("orders", columns, times, shape)
    return done


def nexmark(
    folder: str,
    shape: GeneratorShape | None = None,
    *,
    hot_bids: float = 0.5,
    extra: int = 100,
    open_seconds: float = 20.0,
    side_rows: int = 10_000,
) -> Generated:
    """The streams person, auction and bid of NEXMark, and the table `side` that q13 joins. `rate` is that of all three
    together."""
    shape = shape or GeneratorShape()
    done = Generated(folder)
    for name, columns in events(shape, hot_bids=hot_bids, extra=extra, open_seconds=open_seconds).items():
        times = columns["ts"]
        assert isinstance(times, np.ndarray)
        few = replace(shape, rate=max(len(times), 1) / shape.seconds)
        made = {n: _times(c) if n in ("ts", "expires") and isinstance(c, np.ndarray) else c for n, c in columns.items()}
        done.write_stream(name, made, times, few, seed_name=f"nexmark {name}")
    number = np.arange(side_rows)
    done.write_table("side", {"key": number, "value": texts(number, "value ")})
    return done


def _times(micros: np.ndarray) -> pa.Array:
    return pa.array(micros.astype(np.int64)).view(pa.timestamp("us"))
