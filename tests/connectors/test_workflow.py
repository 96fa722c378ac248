"""Traces follow the workflow: order, choices, shares."""

import pyarrow as pa
import pytest

from eddyline.connectors.generators.draws import GeneratorShape, rng_for
from eddyline.connectors.generators.workflow import CHECKING, HANDLING, TYPES, OrderTraces, order_events
from eddyline.errors import UserError

SHARES = {"concurrent": 50, "quotes": 3, "local": 0.3, "cancelled": 0.2, "rejected": 0.1, "broken": 0.0}


def traces(**changes):
    trace, kind, times = order_events(
        rng_for(1, "orders"), GeneratorShape(rate=1000, seconds=20), OrderTraces(**{**SHARES, **changes})
    )
    assert (times[1:] >= times[:-1]).all()
    grouped = (
        pa.table({"trace": trace, "type": kind.tolist(), "ts": times})
        .group_by("trace", use_threads=False)
        .aggregate([("type", "list"), ("ts", "list")])
    )
    for stamps in grouped["ts_list"].to_pylist():
        assert len(set(stamps)) == len(stamps)
    return grouped["type_list"].to_pylist()


def share(found, name):
    return sum(name in t for t in found) / len(found)


def test_every_trace_keeps_the_constraints():
    found = traces()
    for trace in found:
        assert trace[0] == "ReceiveOrder" and trace[-1] in ("FinishOrder", "CancelOrder", "RejectOrder")
        if trace[-1] == "RejectOrder":
            assert len(trace) == 2
            continue
        assert trace.count("GenerateQuote") == 3 and len(trace) == 11
        assert ("UseLocalStock" in trace) != ("UseRemoteStock" in trace)
        stock = "UseLocalStock" if "UseLocalStock" in trace else "UseRemoteStock"
        for chain in (
            ["CheckInventory", stock, "GenerateInvoice", "SendInvoice"],
            ["OrderFromSupplier", "GenerateQuote", "SendQuote"],
        ):
            places = [trace.index(name) for name in chain]
            assert places == sorted(places)
        assert max(i for i, name in enumerate(trace) if name == "GenerateQuote") < trace.index("SendQuote")
    assert {name for trace in found for name in trace} == set(TYPES)


def test_branches_interleave():
    orders = {tuple(t) for t in traces(local=0.0, cancelled=0.0, rejected=0.0)}
    assert len(orders) > 20


def test_shares_are_what_was_asked_for():
    found = traces()
    assert share(found, "RejectOrder") == pytest.approx(0.1, abs=0.04)
    assert share(found, "CancelOrder") == pytest.approx(0.9 * 0.2, abs=0.04)
    assert share(found, "UseLocalStock") == pytest.approx(0.9 * 0.3, abs=0.04)
    assert sum(map(len, found)) == pytest.approx(20_000, rel=0.03)


def test_broken_traces_send_a_quote_before_the_last_is_made():
    found = traces(broken=1.0, rejected=0.0)
    assert all(t.index("SendQuote") < max(i for i, n in enumerate(t) if n == "GenerateQuote") for t in found)


def test_impossible_shares_are_refused():
    with pytest.raises(UserError, match="local"):
        traces(local=1.5)
    with pytest.raises(UserError, match="concurrent"):
        traces(concurrent=0)
    with pytest.raises(UserError, match="handling"):
        traces(handling=10)
    with pytest.raises(UserError, match="checking"):
        traces(checking=3)


def test_handling_comes_between_the_branches_and_the_end():
    found = traces(handling=9, rejected=0.0)
    assert all(tuple(trace[10:19]) == HANDLING and len(trace) == 20 for trace in found)


def test_checking_comes_between_the_inventory_and_the_choice_of_a_stock():
    found = traces(checking=2, handling=7, rejected=0.0)
    assert all(len(trace) == 20 and tuple(trace[12:19]) == HANDLING[:7] for trace in found)
    for trace in found:
        stock = "UseLocalStock" if "UseLocalStock" in trace else "UseRemoteStock"
        places = [trace.index(name) for name in ("CheckInventory", *CHECKING, stock, "GenerateInvoice", "SendInvoice")]
        assert places == sorted(places)
    assert share(found, "UseLocalStock") == pytest.approx(0.3, abs=0.04)
