"""What `eddyline demo` shows of state: rows that the join without windows stores, with punctuations and without.

Answer   `show_state` runs one query of the demo alone, twice, in this process, and prints the rows stored at some
         moments.
Limits   Other queries of the demo have windows, and their rows lie in the same stores: alone the query shows what it
         needs itself.
"""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.table import Table

from eddyline.runtime.figures.report import Report
from eddyline.session import Session
from eddyline.settings import Settings

#: Moments that are shown.
_MOMENTS = 6
#: Epochs of a run.
_EPOCHS = 30


def show_state(console: Console, statements: str, query: str, rows: int) -> None:
    """Rows stored while `query` runs over the streams of `statements`, which have about `rows` rows."""
    found = {setting: _stored(statements, query, setting, max(64, rows // _EPOCHS)) for setting in ("on", "off")}
    table = Table(title="rows stored for sold_items alone", title_justify="left")
    table.add_column("punctuations")
    for moment in range(_MOMENTS):
        table.add_column(f"{100 * (moment + 1) // _MOMENTS} %", justify="right")
    for setting, held in found.items():
        table.add_row(setting, *(f"{held[(moment + 1) * (len(held) - 1) // _MOMENTS]:,}" for moment in range(_MOMENTS)))
    console.print(table)


def _stored(statements: str, query: str, punctuations: str, epoch_rows: int) -> list[int]:
    """Rows stored after each epoch."""
    found = [0]
    with Session(Settings(punctuations=punctuations, epoch_rows=epoch_rows), keep_results=False) as session:
        session.execute(statements)
        session.execute(query)

        def note(look: Callable[[], Report]) -> None:
            found.append(look().stored_rows)

        session.observe(note)
        session.run(once=True)
    return found
