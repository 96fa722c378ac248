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
State    None: the random generator of the caller decides everything.
Limits   The publication describes its figure in words: the tasks and their order are those, ReceiveOrder and the tasks of
         checking and handling are ours. It has 400,000 events of 20,000 traces, 20 each: three quotes and nine of our
         tasks give as many.
Reading  docs/reading.md: constraint-aware event patterns (Figure 24.1 and the generator of its chapter 29).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eddyline.connectors.generators.draws import SECOND, START, GeneratorShape
from eddyline.errors import UserError

RECEIVE, REJECT, FINISH, CANCEL = "ReceiveOrder", "RejectOrder", "FinishOrder", "CancelOrder"
SUPPLIER, QUOTE, SEND_QUOTE = "OrderFromSupplier", "GenerateQuote", "SendQuote"
INVENTORY, LOCAL, REMOTE = "CheckInventory", "UseLocalStock", "UseRemoteStock"
INVOICE, SEND_INVOICE = "GenerateInvoice", "SendInvoice"
TYPES = (RECEIVE, REJECT, SUPPLIER, QUOTE, SEND_QUOTE, INVENTORY, LOCAL, REMOTE, INVOICE, SEND_INVOICE, FINISH, CANCEL)
#: Tasks between CheckInventory and the choice of a stock, in order.
CHECKING = ("LocateItems", "CompareStocks")
#: Tasks between the two branches and the end, in order.
HANDLING = (
    "ReceivePayment", "PickItems", "CheckItems", "PackItems", "WeighParcel", "PrintLabel", "BookCarrier", "HandOverParcel",
    "ConfirmDelivery",
)  # fmt: skip
_NAMES = (*TYPES, *HANDLING, *CHECKING)
_CODE = {name: code for code, name in enumerate(_NAMES)}


@dataclass(frozen=True, slots=True)
class OrderTraces:
    """The tasks of the traces, and how many traces are open at a time."""

    #: About how many traces are open at a time.
    concurrent: int = 1_000
    #: How often GenerateQuote is repeated in a trace.
    quotes: int = 3
    #: Share of traces with UseLocalStock: patterns that need UseRemoteStock fail there.
    local: float = 0.5
    #: Share of traces that end with CancelOrder instead of FinishOrder.
    cancelled: float = 0.2
    #: Share of traces that are rejected at once.
    rejected: float = 0.05
    #: Share of traces in which SendQuote comes before a GenerateQuote: they break their constraint.
    broken: float = 0.0
    #: How many tasks of CHECKING a trace has.
    checking: int = 0
    #: How many tasks of HANDLING a trace has after its branches; every task takes the same share of its time.
    handling: int = 0

    def __post_init__(self) -> None:
        for name in ("local", "cancelled", "rejected", "broken"):
            if not 0 <= getattr(self, name) <= 1:
                raise UserError(f"{name} does not take {getattr(self, name)}", hint="a share, from 0 to 1")
        if self.concurrent < 1 or self.quotes < 1:
            raise UserError("orders need concurrent traces and quotes", hint="1 or more of each")
        for name, tasks in (("checking", CHECKING), ("handling", HANDLING)):
            if not 0 <= getattr(self, name) <= len(tasks):
                hint = f"a number of tasks, from 0 to {len(tasks)}"
                raise UserError(f"{name} does not take {getattr(self, name)}", hint=hint)


def order_events(
    rng: np.random.Generator, shape: GeneratorShape, traces: OrderTraces
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Trace, type and time of every event, in time order."""
    tasks = 8 + traces.quotes + traces.checking + traces.handling
    count = max(1, round(shape.count / (traces.rejected * 2 + (1 - traces.rejected) * tasks)))
    kinds, places = _tasks(rng, count, traces)
    gone = rng.random(count) < traces.rejected
    kinds[gone, 1] = _CODE[REJECT]
    places[gone, 1] = rng.random(int(gone.sum())) * 0.5 + 0.25
    kinds[gone, 2:] = -1

    span = min(traces.concurrent / (count / shape.seconds), shape.seconds / 2)
    begin = np.sort(rng.random(count)) * (shape.seconds - span)
    # Within a trace times are distinct: the order of its tasks is the order of its times.
    rank = np.argsort(np.argsort(places, axis=1), axis=1)
    times = START + np.floor((begin[:, None] + places * span) * SECOND).astype(np.int64) + rank
    trace = np.broadcast_to(np.arange(1, count + 1)[:, None], kinds.shape)
    there = kinds >= 0
    order = np.argsort(times[there], kind="stable")
    names = np.array(_NAMES, dtype=object)
    return trace[there][order], names[kinds[there][order]], times[there][order]


def _tasks(rng: np.random.Generator, count: int, traces: OrderTraces) -> tuple[np.ndarray, np.ndarray]:
    """Per trace (a row) the code of each task and its place between 0 and 1. The tasks of a branch are in order, the two
    branches interleave."""
    quotes, handling = traces.quotes, traces.handling
    supplier = [SUPPLIER, *[QUOTE] * quotes, SEND_QUOTE]
    stock = [INVENTORY, *CHECKING[: traces.checking], REMOTE, INVOICE, SEND_INVOICE]
    plain = [RECEIVE, *supplier, *stock, *HANDLING[:handling], FINISH]
    kinds = np.tile(np.array([_CODE[name] for name in plain]), (count, 1))
    inside = lambda tasks: 0.02 + 0.96 * np.sort(rng.random((count, tasks)), axis=1)
    ends = np.zeros((count, 1)), np.ones((count, 1))
    early = 1 - handling / (len(plain) - 2)
    branches = inside(len(supplier)) * early, inside(len(stock)) * early
    places = np.hstack([ends[0], *branches, early + inside(handling) * (1 - early), ends[1]])
    kinds[rng.random(count) < traces.local, len(supplier) + 2 + traces.checking] = _CODE[LOCAL]
    kinds[rng.random(count) < traces.cancelled, -1] = _CODE[CANCEL]
    swap = rng.random(count) < traces.broken
    kinds[swap, quotes + 1], kinds[swap, quotes + 2] = _CODE[SEND_QUOTE], _CODE[QUOTE]
    return kinds, places
