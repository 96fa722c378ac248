"""The last table of `eddyline demo`: rows that the join without windows stores, with punctuations and without.

Answer   `show_state` runs one query of the demo alone, twice, in this process, and prints the rows stored after equal
         parts of each run.
State    None.
Limits   The query runs alone because the other queries of the demo keep rows in the same stores for their windows.
"""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from eddyline.session import Session
from eddyline.settings import Settings

#: Equal parts of a run; the table has a column for each.
_PARTS = 6
#: Epochs of a run.
_EPOCHS = 30


def show_state(console: Console, statements: str, query: str, rows: int) -> None:
    """Rows stored while `query` runs over the streams of `statements`, which have about `rows` rows."""
    found = {setting: _stored(statements, query, setting, max(64, rows // _EPOCHS)) for setting in ("on", "off")}
    table = Table(title="rows stored for sold_items alone", title_justify="left")
    table.add_column("punctuations")
    parts = range(1, _PARTS + 1)
    for part in parts:
        table.add_column(f"{100 * part // _PARTS} %", justify="right")
    for setting, stored in found.items():
        table.add_row(setting, *(f"{stored[part * (len(stored) - 1) // _PARTS]:,}" for part in parts))
    console.print(table)


def _stored(statements: str, query: str, punctuations: str, epoch_rows: int) -> list[int]:
    """Rows stored after each epoch."""
    found = [0]
    with Session(Settings(punctuations=punctuations, epoch_rows=epoch_rows), keep_results=False) as session:
        session.execute(statements)
        session.execute(query)
        session.observe(lambda report: found.append(report().stored_rows))
        session.run(once=True)
    return found
