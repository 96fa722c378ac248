"""Writes the data of `fraud.sql`: a day of card payments, with duplicates, late rows and rows that cannot be read.

    python examples/fraud/generate.py [--transactions 50000] [--cards 500] [--out data]

Answer   Four csv files: `cards` (a table), `transactions`, `confirmations` and `audits`. One seed, so that each call
         with the same arguments writes the same bytes.
Limits   Transactions come at most four seconds out of order, except one in a hundred, which comes half an hour late.
         One in a hundred is sent twice. One in a thousand cannot be read.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv

SEED = 34
#: 2024-03-01T00:00:00, in microseconds: the first transaction comes after it.
ORIGIN = 1_709_251_200_000_000
SECOND = 1_000_000
#: Mean time between two transactions: 50,000 of them take a day.
STEP = 1_728_000
COUNTRIES = np.array(["DE", "FR", "IT", "PL", "ES", "SE"])
#: What stands in rows that cannot be read: no number, and more digits than DECIMAL(10, 2) has.
UNREADABLE = np.array(["unknown", "12.505"])


def as_text(times: np.ndarray) -> np.ndarray:
    return np.char.replace(np.datetime_as_string(times.astype("datetime64[us]")), "T", " ")


def write(folder: Path, name: str, **columns: np.ndarray) -> None:
    options = csv.WriteOptions(quoting_style="none")
    csv.write_csv(pa.table(columns), folder / f"{name}.csv", options)


def payments(rng: np.random.Generator, count: int, cards: int, homes: np.ndarray) -> dict[str, np.ndarray]:
    """Ordinary payments, and frauds: a very small payment, a large one abroad within minutes, at times a PIN between
    them. They are in the order of their time."""
    frauds = count // 160
    ordinary = count - 3 * frauds
    span = count * STEP
    begin = rng.integers(0, span - 600 * SECOND, frauds)
    steps = np.cumsum(rng.integers(5 * SECOND, 240 * SECOND, (2, frauds)), axis=0)
    stolen = rng.integers(1, cards + 1, frauds)
    card = np.concatenate([rng.integers(1, cards + 1, ordinary), stolen, stolen, stolen])
    ts = np.concatenate([rng.integers(0, span, ordinary), begin, begin + steps[0], begin + steps[1]]) + ORIGIN
    cents = np.concatenate(
        [
            np.exp(rng.normal(8, 1.2, ordinary)).astype(np.int64) + 1,
            rng.integers(50, 200, frauds),
            rng.integers(500, 9_000, frauds),
            rng.integers(30_000, 150_000, frauds),
        ]
    )
    kind = np.concatenate(
        [
            rng.choice(["online", "tap", "pin"], ordinary, p=[0.5, 0.4, 0.1]),
            np.full(frauds, "online"),
            rng.choice(["tap", "pin"], frauds, p=[0.7, 0.3]),
            np.full(frauds, "online"),
        ]
    )
    abroad = np.concatenate([rng.random(ordinary) < 0.03, np.zeros(2 * frauds, bool), np.ones(frauds, bool)])
    country = np.where(abroad, rng.choice(COUNTRIES, count), homes[card - 1])
    columns = {"card": card, "cents": cents, "kind": kind, "country": country, "ts": ts}
    order = np.argsort(ts, kind="stable")
    return {"id": np.arange(1, count + 1), **{name: values[order] for name, values in columns.items()}}


def arrivals(rng: np.random.Generator, paid: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Transactions as they arrive: out of order, some late, some twice, some unreadable."""
    ts = paid["ts"]
    count = len(ts)
    arrival = ts + rng.integers(0, 4 * SECOND, count)
    # Those of the last hour come in time, so that all late ones come well before the end.
    late = (rng.random(count) < 0.01) & (ts < ts[-1] - 3_600 * SECOND)
    arrival[late] += 1_800 * SECOND
    again = np.flatnonzero(~late & (rng.random(count) < 0.01))
    rows = np.concatenate([np.arange(count), again])
    arrival = np.concatenate([arrival, ts[again] + rng.integers(0, 4 * SECOND, len(again))])
    rows = rows[np.argsort(arrival, kind="stable")]
    cents = paid["cents"]
    amount = np.char.mod("%d.", cents // 100) + np.char.mod("%02d", cents % 100)
    time = as_text(ts)
    unreadable = np.flatnonzero(~late & (rng.random(count) < 0.001))
    amount[unreadable[::2]] = rng.choice(UNREADABLE, len(unreadable[::2]))
    time[unreadable[1::2]] = ""
    return {
        "id": paid["id"][rows],
        "card": paid["card"][rows],
        "amount": amount[rows],
        "kind": paid["kind"][rows],
        "country": paid["country"][rows],
        "ts": time[rows],
    }


def confirmations(rng: np.random.Generator, paid: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Holders confirm seven in ten large payments within ten minutes, and one in ten after that."""
    large = np.flatnonzero(paid["cents"] > 20_000)
    fate = rng.random(len(large))
    wait = np.where(fate < 0.7, rng.integers(1, 600, len(large)), rng.integers(601, 1_200, len(large))) * SECOND
    confirmed = fate < 0.8
    ids, ts = paid["id"][large][confirmed], (paid["ts"][large] + wait)[confirmed]
    order = np.argsort(ts, kind="stable")
    return {"id": ids[order], "ts": as_text(ts[order])}


def generate(folder: Path, transactions: int = 50_000, cards: int = 500) -> None:
    rng = np.random.default_rng(SEED)
    folder.mkdir(parents=True, exist_ok=True)
    homes = rng.choice(COUNTRIES, cards)
    ceiling = rng.choice(["100.00", "250.00", "500.00"], cards)
    write(folder, "cards", card=np.arange(1, cards + 1), home=homes, ceiling=ceiling)
    paid = payments(rng, transactions, cards, homes)
    write(folder, "transactions", **arrivals(rng, paid))
    write(folder, "confirmations", **confirmations(rng, paid))
    asked = np.sort(rng.choice(paid["ts"], 200, replace=False)) + 1
    write(folder, "audits", audit=np.arange(1, 201), card=rng.integers(1, cards + 1, 200), ts=as_text(asked))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write the data of fraud.sql.")
    parser.add_argument("--transactions", type=int, default=50_000)
    parser.add_argument("--cards", type=int, default=500)
    parser.add_argument("--out", type=Path, default=Path("data"))
    arguments = parser.parse_args()
    generate(arguments.out, arguments.transactions, arguments.cards)
