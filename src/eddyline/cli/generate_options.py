"""Options of `eddyline generate`.

Answer   `KINDS` has the help of each kind, and of its own options with their defaults, which are those of its function.
State    None.
Limits   The functions are in `connectors/generators/generate.py`, which loads PyArrow; help does without.
"""

from __future__ import annotations

#: Per kind its help, and the default and the help of its own options.
KINDS: dict[str, tuple[str, dict[str, tuple[float, str]]]] = {
    "auction": (
        "auctions with closing times, bids, and a table of categories",
        {
            "bids_per_auction": (10.0, "bids per auction, on average; --rate counts bids"),
            "open_seconds": (300.0, "how long an auction is open, on average"),
            "categories": (10, "different categories"),
            "sellers": (1000, "different sellers"),
            "bidders": (10000, "different bidders"),
        },
    ),
    "sensors": (
        "temperature, humidity and light per location",
        {
            "locations": (100, "different locations"),
        },
    ),
    "clique": (
        "sources a, b, c, … with one column per pair of them",
        {
            "sources": (4, "how many sources"),
            "dmax": (200, "values are uniform from 1 to this"),
            "last_factor": (1, "the last source draws from a domain larger by this factor"),
        },
    ),
    "orders": (
        "events of the order-fulfilment workflow, many traces interleaved",
        {
            "values": (400, "different values of each attribute"),
            "concurrent": (1000, "traces open at a time"),
            "quotes": (3, "repetitions of GenerateQuote"),
            "local": (0.5, "share of traces that use local stock: patterns with remote stock fail there"),
            "cancelled": (0.2, "share of traces that end with CancelOrder"),
            "rejected": (0.05, "share of traces that are rejected at once"),
            "broken": (0.0, "share of traces that break the order of quotes"),
            "checking": (0, "tasks between CheckInventory and the choice of a stock, at most 2"),
            "handling": (0, "tasks between the branches and the end, at most 9"),
        },
    ),
    "nexmark": (
        "persons, auctions and bids of NEXMark, 1 : 3 : 46, with hot keys, and the table side",
        {
            "hot_bids": (0.5, "share of bids on hot auctions"),
            "extra": (100, "length of the filling texts"),
            "open_seconds": (20.0, "how long an auction is open, on average"),
            "side_rows": (10000, "rows of the table side"),
        },
    ),
}
#: Rate and seconds of a kind whose defaults differ from those of the others.
RATES = {"clique": (1.0, 18_000.0)}
