"""The events of online orders: a workflow with a choice, a loop, two parallel branches and three ways to end.

Answer   Every task, when performed, is one event of its trace:

             ReceiveOrder ─┬─ RejectOrder
                           └─┬─ OrderFromSupplier ─ GenerateQuote × n ─ SendQuote ─────────────────────────────┬─ …
                             └─ CheckInventory ─ checking ─┬─ UseLocalStock  ─┬─ GenerateInvoice ─ SendInvoice ┘
                                                           └─ UseRemoteStock ─┘
             … ─ handling ─┬─ FinishOrder
                           └─ CancelOrder

         So UseLocalStock and UseRemoteStock exclude each other, as FinishOrder, CancelOrder and RejectOrder do; no
         GenerateQuote follows SendQuote, no GenerateInvoice follows SendInvoice. Checking and handling are any number
         of the tasks of CHECKING and HANDLING.
Limits   The figure this follows is known by what the text around it says of its tasks and their order; ReceiveOrder and
         the tasks of checking and handling are ours. The text has 400,000 events of 20,000 traces, 20 each: with three
         quotes nine of these.
Reading  docs/reading.md: constraint-aware event patterns (Figure 24.1 and the generator of its chapter 29).
"""

from __future__ import annotations

import numpy as np

from eddyline.connectors.generators.draws import SECOND, START, GeneratorShape
from eddyline.errors import UserError

RECEIVE, REJECT, FINISH, CANCEL = "ReceiveOrder", "RejectOrder", "FinishOrder", "CancelOrder"
SUPPLIER, QUOTE, SEND_QUOTE = "OrderFromSupplier", "GenerateQuote", "SendQuote"
INVENTORY, LOCAL, REMOTE, INVOICE, SEND_INVOICE = (
    "CheckInventory",
    "UseLocalStock",
    "UseRemoteStock",
    "GenerateInvoice",
    "SendInvoice",
)
TYPES = (RECEIVE, REJECT, SUPPLIER, QUOTE, SEND_QUOTE, INVENTORY, LOCAL, REMOTE, INVOICE, SEND_INVOICE, FINISH, CANCEL)
#: Tasks between CheckInventory and the choice of a stock, in order.
CHECKING = ("LocateItems", "CompareStocks")
#: Tasks between the two branches and the end, in order.
HANDLING = (
    "ReceivePayment",
    "PickItems",
    "CheckItems",
    "PackItems",
    "WeighParcel",
    "PrintLabel",
    "BookCarrier",
    "HandOverParcel",
    "ConfirmDelivery",
)
_NAMES = (*TYPES, *HANDLING, *CHECKING)
_CODE = {name: code for code, name in enumerate(_NAMES)}


def order_events(
    rng: np.random.Generator,
    shape: GeneratorShape,
    *,
    concurrent: int,
    quotes: int,
    local: float,
    cancelled: float,
    rejected: float,
    broken: float,
    checking: int = 0,
    handling: int = 0,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Trace, type and time of every event, in time order.

    Args:
        concurrent: about how many traces are open at a time.
        quotes: how often GenerateQuote is repeated in a trace.
        local: share of traces with UseLocalStock: patterns that need UseRemoteStock fail there.
        cancelled: share of traces that end with CancelOrder instead of FinishOrder.
        rejected: share of traces that are rejected at once.
        broken: share of traces in which SendQuote comes before a GenerateQuote: they break their constraint.
        checking: how many tasks of CHECKING a trace has.
        handling: how many tasks of HANDLING a trace has after its branches; every task takes the same share of its
        time.
    """
    for name, value in [("local", local), ("cancelled", cancelled), ("rejected", rejected), ("broken", broken)]:
        if not 0 <= value <= 1:
            raise UserError(f"{name} does not take {value}", hint="a share, from 0 to 1")
    if concurrent < 1 or quotes < 1:
        raise UserError("orders need concurrent traces and quotes", hint="1 or more of each")
    for name, count, tasks in [("checking", checking, CHECKING), ("handling", handling, HANDLING)]:
        if not 0 <= count <= len(tasks):
            raise UserError(f"{name} does not take {count}", hint=f"a number of tasks, from 0 to {len(tasks)}")
    length = rejected * 2 + (1 - rejected) * (8 + quotes + checking + handling)
    traces = max(1, round(shape.count / length))
    kinds, places = _tasks(rng, traces, quotes, local, cancelled, broken, checking, handling)
    gone = rng.random(traces) < rejected
    kinds[gone, 1] = _CODE[REJECT]
    places[gone, 1] = rng.random(int(gone.sum())) * 0.5 + 0.25
    kinds[gone, 2:] = -1

    span = min(concurrent / (traces / shape.seconds), shape.seconds / 2)
    begin = np.sort(rng.random(traces)) * (shape.seconds - span)
    # Within a trace times are distinct: the order of its tasks is the order of its times.
    rank = np.argsort(np.argsort(places, axis=1), axis=1)
    times = START + np.floor((begin[:, None] + places * span) * SECOND).astype(np.int64) + rank
    trace = np.broadcast_to(np.arange(1, traces + 1)[:, None], kinds.shape)
    there = kinds >= 0
    order = np.argsort(times[there], kind="stable")
    names = np.array(_NAMES, dtype=object)
    return trace[there][order], names[kinds[there][order]], times[there][order]


def _tasks(
    rng: np.random.Generator,
    traces: int,
    quotes: int,
    local: float,
    cancelled: float,
    broken: float,
    checking: int,
    handling: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Per trace (a row) the code of each task and its place between 0 and 1; each branch is in order, branches
    interleave."""
    supplier = [SUPPLIER, *[QUOTE] * quotes, SEND_QUOTE]
    stock = [INVENTORY, *CHECKING[:checking], REMOTE, INVOICE, SEND_INVOICE]
    plain = [RECEIVE, *supplier, *stock, *HANDLING[:handling], FINISH]
    kinds = np.tile(np.array([_CODE[name] for name in plain]), (traces, 1))
    inside = lambda count: 0.02 + 0.96 * np.sort(rng.random((traces, count)), axis=1)
    ends = np.zeros((traces, 1)), np.ones((traces, 1))
    early = 1 - handling / (len(plain) - 2)
    branches = inside(len(supplier)) * early, inside(len(stock)) * early
    places = np.hstack([ends[0], *branches, early + inside(handling) * (1 - early), ends[1]])
    kinds[rng.random(traces) < local, len(supplier) + 2 + checking] = _CODE[LOCAL]
    kinds[rng.random(traces) < cancelled, -1] = _CODE[CANCEL]
    swap = rng.random(traces) < broken
    kinds[swap, quotes + 1], kinds[swap, quotes + 2] = _CODE[SEND_QUOTE], _CODE[QUOTE]
    return kinds, places
