"""Event patterns on Spark: orders on two shards answer as they do in one process, and violations are found once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eddyline import Session
from eddyline.connectors.generators.draws import GeneratorShape
from eddyline.connectors.generators.generate import orders

pytestmark = pytest.mark.spark

JOB = """
CREATE CONSTRAINTS rules ON orders TYPE type PARTITION BY trace_id (
  PRIOR(GenerateQuote, SendQuote), EXCLUSIVE(UseLocalStock, UseRemoteStock), BEGIN(ReceiveOrder),
  END(FinishOrder, CancelOrder, RejectOrder));
CREATE QUERY remote AS
  EVENT SEQ(AND(SEQ(OrderFromSupplier, GenerateQuote[price > 200] q), SEQ(UseRemoteStock, GenerateInvoice)), CancelOrder c)
  FROM orders TYPE type PARTITION BY trace_id RETURN trace_id, q.price AS quote, c.ts AS cancelled;
"""


def answered(session: Session, statements: list[str]) -> tuple[list[Any], list[Any]]:
    session.execute("\n".join(statements) + JOB)
    session.run(once=True, final=False)
    results = [tuple(row.values()) for row in session.queries["remote"].table().to_pylist()]
    return results, sorted((row["trace_id"], row["_reason"]) for row in session.dead_letters("orders").to_pylist())


@pytest.mark.long
def test_shards_answer_as_one_process(spark, tmp_path: Path) -> None:
    made = orders(str(tmp_path / "data"), GeneratorShape(50.0, 40.0, 3), concurrent=50, broken=0.1)
    with Session() as session:
        expected = answered(session, list(made.statements))
    with Session(spark=spark, checkpoint=str(tmp_path / "checkpoint")) as session:
        session.set("shards", 2)
        found = answered(session, list(made.statements))
    assert found == expected and len(expected[0]) > 5 and len(expected[1]) > 3
