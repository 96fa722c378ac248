"""Events held and probes of `prune` against `check`, over the orders generator at several fail ratios.

Answer   One line per query and fail ratio: peak events held and probes under both settings, the share that `prune`
         saves, operator seconds. For the OR also the peak of events that a match can still need, worked out from the
         generated events alone.
Limits   Seconds are those of one run.
"""

from __future__ import annotations

import argparse
import json
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from pyarrow import parquet

from eddyline.connectors.generators.draws import GeneratorShape
from eddyline.connectors.generators.generate import orders
from eddyline.session import Session

CONSTRAINTS = """CREATE CONSTRAINTS rules ON orders TYPE type PARTITION BY trace_id (
  PRIOR(GenerateQuote, SendQuote), PRIOR(GenerateInvoice, SendInvoice), EXCLUSIVE(UseLocalStock, UseRemoteStock),
  EXCLUSIVE(CancelOrder, FinishOrder), BEGIN(ReceiveOrder), END(FinishOrder, CancelOrder, RejectOrder));"""
_BRANCHES = "SEQ(OrderFromSupplier, GenerateQuote[price > {quote}] q), SEQ(UseRemoteStock, GenerateInvoice)"
QUERIES = {
    "SEQ": "EVENT SEQ(CheckInventory, UseRemoteStock, GenerateInvoice)",
    "SEQ late": "EVENT SEQ(CheckInventory, UseRemoteStock, GenerateInvoice[price > {late}])",
    "AND": f"EVENT SEQ(AND({_BRANCHES}), FinishOrder)",
    "OR": f"EVENT SEQ(OR({_BRANCHES}), FinishOrder)",
}


def measured(statements: list[str], event: str, setting: str) -> dict[str, Any]:
    with Session(keep_results=False) as session:
        session.execute("\n".join(statements))
        session.set("constraints", setting)
        session.execute(
            f"{CONSTRAINTS} CREATE QUERY q AS {event} FROM orders TYPE type PARTITION BY trace_id RETURN trace_id;"
        )
        session.run(final=False)
        stats = session.stats()
    (book,) = stats["patterns"].values()
    seconds = next(node["seconds"] for name, node in stats["operators"].items() if name.startswith("patterns over"))
    return {
        "peak": book["peak_events_held"],
        "probes": book["probes"],
        "results": stats["results"]["q"],
        "seconds": seconds,
    }


#: Tasks between CheckInventory and the choice of a stock, and after the branches: 20 events of an order. README.md has
#: the reason.
CHECKING, HANDLING = 2, 7


def made_orders(
    folder: str,
    events: int,
    local: float,
    checking: int = CHECKING,
    handling: int = HANDLING,
    concurrent: int = 1_000,
) -> list[str]:
    """Statements that declare the orders; a share of them uses local stock."""
    shape = GeneratorShape(100.0, events / 100, 0)
    shares = {"local": local, "cancelled": 0.0, "rejected": 0.0}
    return orders(
        folder, shape, concurrent=concurrent, quotes=3, **shares, checking=checking, handling=handling, values=400
    ).statements


def needed_by_or(path: str, quote: int) -> int:
    """The most events that the OR can still need at a time: OrderFromSupplier until a quote has matched or SendQuote
    has come, and then,
    like matching quotes, UseRemoteStock and the invoice after it, until the order ends."""
    rows = parquet.read_table(path, columns=["trace_id", "type", "price"])
    trace, price = rows.column("trace_id").to_numpy(), rows.column("price").to_numpy()
    kind, place = np.asarray(rows.column("type").to_pylist()), np.arange(len(rows))

    def first(chosen: np.ndarray) -> np.ndarray:
        """Per trace the first of these events, or one after all."""
        found = np.full(int(trace.max()) + 1, len(rows))
        np.minimum.at(found, trace[chosen], place[chosen])
        return found

    end, sent, supplier, remote = (
        first(kind == k) for k in ("FinishOrder", "SendQuote", "OrderFromSupplier", "UseRemoteStock")
    )
    matching = (kind == "GenerateQuote") & (price > quote) & (place > supplier[trace])
    leaves = np.where(first(matching) < sent, end, np.minimum(sent, end))
    lasting = matching | (kind == "UseRemoteStock") | ((kind == "GenerateInvoice") & (place > remote[trace]))
    held = np.zeros(len(rows) + 1, np.int64)
    np.add.at(held, place[lasting], 1)
    np.add.at(held, end[trace[lasting]], -1)
    chosen = kind == "OrderFromSupplier"
    np.add.at(held, place[chosen], 1)
    np.add.at(held, leaves[trace[chosen]], -1)
    return int(np.cumsum(held).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=400_000, help="events in all")
    parser.add_argument(
        "--checking", type=int, default=CHECKING, help="tasks between CheckInventory and the choice of a stock"
    )
    parser.add_argument("--handling", type=int, default=HANDLING, help="tasks after the branches of an order")
    parser.add_argument("--ratios", default="0,50,90", help="fail ratios in per cent")
    parser.add_argument("--concurrent", type=int, default=1_000, help="orders that are open at a time")
    args = parser.parse_args()
    ratios = [int(ratio) for ratio in args.ratios.split(",")]
    # Query, and in how many of 100 orders its first branch, and its second one, fails. The AND's first branch is fixed
    # at half of its quotes in figure 29.2a, where the second one fails.
    cases = [
        case
        for of in ratios
        for case in (
            ("SEQ", None, of),
            ("SEQ late", of, 0),
            ("AND", None, of),
            ("AND, first branch late", of, 0),
            ("OR", of, of),
        )
    ]
    cases += [("OR", first, second) for first in ratios for second in ratios if first != second]
    with TemporaryDirectory() as folder:
        made: dict[int, list[str]] = {}
        for name, first, second in cases:
            if second not in made:
                shape = args.checking, args.handling, args.concurrent
                made[second] = made_orders(f"{folder}/{second}", args.events, second / 100, *shape)
            # Quotes come three times: a branch fails where all of them do.
            quote = 200 if first is None else round(400 * (first / 100) ** (1 / 3))
            text = QUERIES[name.partition(",")[0]].format(quote=quote, late=round(400 * (first or 0) / 100))
            check, prune = (measured(made[second], text, setting) for setting in ("check", "prune"))
            assert check["results"] == prune["results"]
            saved = {key: round(1 - prune[key] / check[key], 3) if check[key] else 0.0 for key in ("peak", "probes")}
            needed = {"needed": needed_by_or(f"{folder}/{second}/orders", quote)} if name == "OR" else {}
            found = {"query": name, "fails": [first, second], "check": check, "prune": prune, "saved": saved, **needed}
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
