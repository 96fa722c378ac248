"""Events held and probes of `prune` against `check`, over the orders generator at several fail ratios.

Answer   One line per query and fail ratio: peak events held and probes under both settings, the share that `prune` saves, operator seconds.
Limits   Seconds are those of one run.
"""

from __future__ import annotations

import argparse
import json
from tempfile import TemporaryDirectory
from typing import Any

from eddyline.connectors.draws import Shape
from eddyline.connectors.generate import orders
from eddyline.session import Session

CONSTRAINTS = """CREATE CONSTRAINTS rules ON orders TYPE type PARTITION BY trace_id (
  PRIOR(GenerateQuote, SendQuote), PRIOR(GenerateInvoice, SendInvoice), EXCLUSIVE(UseLocalStock, UseRemoteStock),
  EXCLUSIVE(CancelOrder, FinishOrder), BEGIN(ReceiveOrder), END(FinishOrder, CancelOrder, RejectOrder));"""
_BRANCHES = "SEQ(OrderFromSupplier, GenerateQuote[price > {quote}] q), SEQ(UseRemoteStock, GenerateInvoice)"
QUERIES = {
    "SEQ": "EVENT SEQ(CheckInventory, UseRemoteStock, GenerateInvoice)",
    "AND": f"EVENT SEQ(AND({_BRANCHES}), FinishOrder)",
    "OR": f"EVENT SEQ(OR({_BRANCHES}), FinishOrder)",
}


def measured(statements: list[str], event: str, setting: str) -> dict[str, Any]:
    with Session(keep_results=False) as session:
        session.execute("\n".join(statements))
        session.set("constraints", setting)
        session.execute(f"{CONSTRAINTS} CREATE QUERY q AS {event} FROM orders TYPE type PARTITION BY trace_id RETURN trace_id;")
        session.run(once=True)
        stats = session.stats()
    (book,) = stats["patterns"].values()
    seconds = next(node["seconds"] for name, node in stats["operators"].items() if name.startswith("patterns over"))
    return {"peak": book["peak_events_held"], "probes": book["probes"], "results": stats["results"]["q"], "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=220_000, help="events in all")
    parser.add_argument("--ratios", default="0,50,90", help="fail ratios in per cent")
    args = parser.parse_args()
    for ratio in [int(r) for r in args.ratios.split(",")]:
        with TemporaryDirectory() as folder:
            shape = Shape(100.0, args.events / 100, 0)
            made = orders(folder, shape, concurrent=1_000, quotes=3, local=ratio / 100, cancelled=0.0, rejected=0.0, values=400)
            for name, event in QUERIES.items():
                # Quotes come three times: a branch fails where all of them do. The AND's first branch is fixed at half of its quotes.
                quote = 200 if name == "AND" else round(400 * (ratio / 100) ** (1 / 3))
                text = event.format(quote=quote)
                check, prune = (measured(made.statements, text, setting) for setting in ("check", "prune"))
                assert check["results"] == prune["results"]
                saved = {key: round(1 - prune[key] / check[key], 3) if check[key] else 0.0 for key in ("peak", "probes")}
                print(json.dumps({"query": name, "fails": ratio, "check": check, "prune": prune, "saved": saved}), flush=True)


if __name__ == "__main__":
    main()
