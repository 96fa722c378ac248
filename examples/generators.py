"""Every generator, and a query over what it wrote."""

import tempfile
from pathlib import Path

from eddyline import Session
from eddyline.connectors.generators import generate
from eddyline.connectors.generators.draws import GeneratorShape

QUERIES = {
    "auction": "SELECT a.item_id, b.price FROM auctions [RANGE 30 SECONDS] a, bids [RANGE 30 SECONDS] b WHERE a.item_id = b.item_id",
    "sensors": "SELECT t.celsius, h.percent FROM temperature [RANGE 1 SECOND] t, humidity [RANGE 1 SECOND] h WHERE t.location = h.location",
    "clique": "SELECT a.ts AS ta, b.ts AS tb FROM a [RANGE 1 MINUTE], b [RANGE 1 MINUTE] WHERE a.x1 = b.x1",
    "orders": "SELECT trace_id, item, price FROM orders WHERE type = 'CancelOrder'",
}

with tempfile.TemporaryDirectory() as folder:
    for kind, query in QUERIES.items():
        made = getattr(generate, kind)(str(Path(folder) / kind), GeneratorShape(rate=50, seconds=60, seed=7))
        session = Session()
        session.execute("\n".join(made.statements))
        answers = session.query("answers", query)
        session.run(once=True)
        print(f"{kind}: {sum(made.rows.values()):,} rows, {answers.table().num_rows:,} results")
