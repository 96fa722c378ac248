"""The streams of NEXMark: persons, auctions and bids of an online auction, in the usual proportions.

Answer   `events` gives the columns of the three streams. Of 50 events one is a person, three are auctions and 46 are
         bids; the event times of all three together are even. Every hundredth auction and person is hot. Half of the
         bids go to the newest hot auction, and most bidders and sellers are hot persons.
State    None: the seed of the shape decides everything.
Limits   Whole columns in memory. Names, texts and prices are random; only their distributions follow the NEXMark
         generator.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from eddyline.connectors.generators.draws import GeneratorShape, event_times, rng_for, texts

#: Persons, auctions and bids of 50 events, as in the NEXMark generator.
PERSONS, AUCTIONS, BIDS = 1, 3, 46
TOGETHER = PERSONS + AUCTIONS + BIDS
#: The first person and the first auction.
FIRST = 1000
_HOT = 100
_STATES = ("az", "ca", "id", "or", "wa", "wy")
_CITIES = (
    "phoenix", "los angeles", "san francisco", "boise", "portland", "bend", "redmond", "seattle", "kent", "cheyenne",
)  # fmt: skip
_CHANNELS = ("google", "facebook", "baidu", "apple")
Columns = dict[str, object]


def events(
    shape: GeneratorShape, *, hot_bids: float = 0.5, extra: int = 100, open_seconds: float = 20.0
) -> dict[str, Columns]:
    """Columns by stream; event times are microseconds.

    Args:
        shape: rate and length of all three streams together.
        hot_bids: the share of bids on hot auctions.
        extra: the length of the texts that fill rows.
        open_seconds: how long an auction is open, on average.
    """
    number = np.arange(shape.count)
    times = event_times(rng_for(shape.seed, "nexmark times"), shape)
    group, place = np.divmod(number, TOGETHER)
    is_person, is_auction = place < PERSONS, (place >= PERSONS) & (place < PERSONS + AUCTIONS)
    is_bid = ~is_person & ~is_auction
    #: How many persons and auctions there are at each event.
    persons = group * PERSONS + np.minimum(place + 1, PERSONS)
    auctions = group * AUCTIONS + np.clip(place - PERSONS + 1, 0, AUCTIONS)
    return {
        "person": _persons(shape, times[is_person], persons[is_person], extra),
        "auction": _auctions(shape, times[is_auction], persons[is_auction], auctions[is_auction], extra, open_seconds),
        "bid": _bids(shape, times[is_bid], persons[is_bid], auctions[is_bid], hot_bids, extra),
    }


def _persons(shape: GeneratorShape, times: np.ndarray, persons: np.ndarray, extra: int) -> Columns:
    rng = rng_for(shape.seed, "nexmark persons")
    ids = FIRST + persons - 1
    cards = rng.integers(0, 10_000, (4, len(times)))
    return {
        "id": ids,
        "name": texts(rng.integers(1, 1_000, len(times)), "person "),
        "email": texts(ids, "person@"),
        "credit_card": pa.array([f"{a:04d} {b:04d} {c:04d} {d:04d}" for a, b, c, d in cards.T.tolist()], pa.string()),
        "city": _drawn(rng, _CITIES, len(times)),
        "state": _drawn(rng, _STATES, len(times)),
        "ts": times,
        "extra": _filling(rng, len(times), extra),
    }


def _auctions(
    shape: GeneratorShape, times: np.ndarray, persons: np.ndarray, auctions: np.ndarray, extra: int, open_seconds: float
) -> Columns:
    rng = rng_for(shape.seed, "nexmark auctions")
    count = len(times)
    hot = (persons - 1) // _HOT * _HOT
    seller = np.where(rng.random(count) < 0.75, hot, _lately(rng, persons, 1_000))
    initial = np.exp(rng.uniform(0.0, np.log(1e6), count)).astype(np.int64)
    length = rng.uniform(0.5, 1.5, count) * open_seconds * 1_000_000
    return {
        "id": FIRST + auctions - 1,
        "item_name": texts(rng.integers(1, 10_000, count), "item "),
        "description": _filling(rng, count, extra // 2),
        "initial_bid": initial,
        "reserve": initial + rng.integers(1, 1_000, count),
        "ts": times,
        "expires": times + length.astype(np.int64),
        "seller": FIRST + seller,
        "category": 10 + rng.integers(0, 5, count),
        "extra": _filling(rng, count, extra),
    }


def _bids(
    shape: GeneratorShape, times: np.ndarray, persons: np.ndarray, auctions: np.ndarray, hot_bids: float, extra: int
) -> Columns:
    rng = rng_for(shape.seed, "nexmark bids")
    count = len(times)
    hot_auction, hot_bidder = (auctions - 1) // _HOT * _HOT, (persons - 1) // _HOT * _HOT
    auction = np.where(rng.random(count) < hot_bids, hot_auction, _lately(rng, auctions, 100))
    bidder = np.where(rng.random(count) < 0.75, hot_bidder, _lately(rng, persons, 1_000))
    channel = np.where(
        rng.random(count) < 0.5, rng.integers(0, len(_CHANNELS), count), len(_CHANNELS) + rng.integers(0, 10_000, count)
    )
    plain = pa.array([*_CHANNELS, *(f"channel-{i}" for i in range(10_000))], pa.string())
    links = [f"https://www.nexmark.com/{c}/item.htm?query=1" for c in _CHANNELS]
    links += [f"https://www.nexmark.com/shop/{i % 7}/item.htm?query=1&channel_id={i}" for i in range(10_000)]
    return {
        "auction": FIRST + auction,
        "bidder": FIRST + bidder,
        "price": np.exp(rng.uniform(np.log(100.0), np.log(1e8), count)).astype(np.int64),
        "channel": plain.take(pa.array(channel)),
        "url": pa.array(links, pa.string()).take(pa.array(channel)),
        "ts": times,
        "extra": _filling(rng, count, extra),
    }


def _lately(rng: np.random.Generator, so_far: np.ndarray, most: int) -> np.ndarray:
    """Per event one of the newest `most` of the `so_far` persons or auctions; the first has the number 0."""
    here = np.maximum(so_far, 1)
    return here - 1 - (rng.random(len(here)) * np.minimum(here, most)).astype(np.int64)


def _drawn(rng: np.random.Generator, values: tuple[str, ...], count: int) -> pa.Array:
    return pa.array(values, pa.string()).take(pa.array(rng.integers(0, len(values), count)))


def _filling(rng: np.random.Generator, count: int, length: int) -> pa.Array:
    """A thousand different texts of a length, in random order."""
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    some = ["".join(row) for row in letters[rng.integers(0, 26, (1_000, max(length, 1)))]] if length else [""]
    return pa.array(some, pa.string()).take(pa.array(rng.integers(0, len(some), count)))
