"""A slot of a query that has gone is given to another, which must not inherit anything."""

from __future__ import annotations

import numpy as np
import pytest

from eddyline import Session


@pytest.mark.parametrize("plan", ["mjoin", "((a b) c)"])
def test_who_gets_a_used_slot_sees_only_rows_of_its_own(plan: str) -> None:
    """Seventy queries fill two words of lineage; those that go leave bits on rows that stay, and others get their slots
    at once."""
    rng = np.random.default_rng(8)
    text = (
        "SELECT a.v AS x, b.v AS y, c.v AS z FROM a [RANGE {0} SECONDS] a, b [RANGE {0} SECONDS] b, c [UNBOUNDED] c"
        " WHERE a.k = b.k AND b.k = c.k AND a.v >= {1} AND c.v < {1}"
    )
    with Session() as session:
        for name in "abc":
            session.execute(f"CREATE STREAM {name} (k INT, v INT, ts TIMESTAMP) WITH (time = 'ts')")
        session.query(
            "frontier",
            "SELECT a.v AS x, b.v AS y, c.v AS z FROM a [ROWS 1], b [ROWS 1], c [ROWS 1] WHERE a.v = b.v AND b.v = c.v",
        )
        handles: dict[tuple[int, str], object] = {}
        slots: dict[int, int] = {}
        reused = 0
        made = 0
        for epoch in range(5):
            if epoch:
                for number in rng.choice(list(slots), 30, replace=False).tolist():
                    for share in ("on", "off"):
                        session.drop(f"q{number}{share}")
                    slots.pop(number)
            session.step()
            while len(slots) < 70:
                window, low = int(rng.integers(1, 9)), int(rng.integers(0, 100))
                for share in ("on", "off"):
                    handles[made, share] = session.query(
                        f"q{made}{share}", text.format(window, low), share=share, plan=plan
                    )
                slot = session.pipeline.queries[f"q{made}on"].slot
                reused += made > slot
                slots[made] = slot
                made += 1
            for name in "abc":
                times = np.sort(rng.integers(0, 2_000_000, 25)) + epoch * 2_000_000
                session.push(name, [(int(rng.integers(0, 5)), int(rng.integers(0, 100)), int(ts)) for ts in times])
            session.step()
        session.run(once=True)
        assert reused > 50
        results = 0
        for number in range(made):
            shared, alone = handles[number, "on"], handles[number, "off"]
            assert (shared.start, shared.stop) == (alone.start, alone.stop)
            rows, right = (sorted(map(str, handle.table().to_pylist())) for handle in (shared, alone))
            assert rows == right, number
            results += len(right)
        assert results > 1_000
