"""Results of a query as they come, on a terminal, until the user ends it.

Answer   `show_live` runs a session in the background and draws the newest rows of a query again and again. It ends the
         run at the keys q and Ctrl-C, or when the run fails; an error of the run is raised.
State    The newest rows that fit the terminal.
Limits   The terminal is one of POSIX. The epoch at hand ends before the shell goes on.
"""

from __future__ import annotations

import pyarrow as pa
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from eddyline.cli.interactive.keys import is_ended, single_keys
from eddyline.connectors.results.sinks import as_rich
from eddyline.model.clock import WALL
from eddyline.runtime.front.query import Query
from eddyline.session import Session

#: Seconds between two looks for results, and between two drawings where nothing comes.
_PAUSE, _BEAT = 0.1, 1.0
#: Lines of a terminal that are not rows: title, head and foot of the table, the line below it, and the prompt.
_OTHER_LINES = 8
#: Rows that are shown where the terminal is lower than that.
_FEWEST = 3


def show_live(console: Console, session: Session, query: Query, title: str, limit: int) -> int:
    """Show the newest rows of a query until the user ends it; returns how many rows came."""
    most = max(_FEWEST, min(limit, console.height - _OTHER_LINES))
    began = drawn = WALL.now()
    newest, count = query.take(), 0
    session.start()
    try:
        with single_keys() as keyboard, Live(console=console, auto_refresh=False) as live:
            live.update(_drawing(newest, title, count, 0.0), refresh=True)
            while not is_ended(keyboard, _PAUSE):
                came = query.take()
                count += came.num_rows
                newest = _last(pa.concat_tables([newest, came]), most)
                now = WALL.now()
                if came.num_rows or now - drawn >= _BEAT:
                    drawn = now
                    live.update(_drawing(newest, title, count, now - began), refresh=True)
    except KeyboardInterrupt:
        # A signal from elsewhere ends the query, too.
        pass
    finally:
        session.stop(final=False)
    return count


def _last(table: pa.Table, most: int) -> pa.Table:
    return table.slice(max(0, table.num_rows - most))


def _drawing(rows: pa.Table, title: str, count: int, seconds: float) -> Group:
    said = f"{count:,} {'row' if count == 1 else 'rows'} so far, {seconds:.0f} s; q or Ctrl-C ends the query"
    return Group(as_rich(rows, title, rows.num_rows), Text(said, style="dim"))
