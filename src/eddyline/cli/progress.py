"""The progress of a running job: a live table on a terminal, plain lines elsewhere.

Answer   Rows per second, frontier, state, results per query; warnings as lines; a summary at the end.
State    When the display was drawn last, and the rows so far at that time; the figures with which a resumed run began.
Limits   At most four displays per second, whatever the number of epochs.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from eddyline.errors import EddylineWarning
from eddyline.model.clock import WALL, Clock
from eddyline.runtime.figures.report import Report

#: Seconds between two displays: in place on a terminal, and as lines.
_IN_PLACE, _AS_LINES = 0.25, 2.0


class ProgressDisplay:
    def __init__(
        self, quiet: bool = False, console: Console | None = None, clock: Clock = WALL, seconds: float | None = None
    ) -> None:
        """`seconds` lie between two displays; None: `_IN_PLACE` or `_AS_LINES`."""
        self._seconds = seconds
        self._clock = clock
        self.quiet = quiet
        self.console = console or Console()
        self._live: Live | None = None
        self._warnings = warnings.catch_warnings()
        self._shown = self._clock.now()
        self._rows = 0
        #: The figures of a checkpoint with which the run began; empty for a run that begins anew.
        self._before: dict[str, Any] = {}

    def __enter__(self) -> ProgressDisplay:
        self._warnings.__enter__()
        warnings.simplefilter("always", EddylineWarning)
        show = warnings.showwarning
        warnings.showwarning = lambda text, kind, *place: (
            _line(text) if kind is EddylineWarning else show(text, kind, *place)
        )
        if not self.quiet and self.console.is_terminal:
            self._live = Live(console=self.console, auto_refresh=False, transient=True)
            self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.__exit__(kind, problem, trace)
        self._warnings.__exit__(kind, problem, trace)

    def resumed(self, stats: dict[str, Any], derived: Collection[str], checkpoint: str) -> None:
        """Take the figures of a job before its first epoch. Where an earlier run has read rows, later figures are told
        apart: what is new and what was there."""
        rows = _rows_of(stats, derived)
        if not rows:
            return
        self._before, self._rows = stats, rows
        if not self.quiet:
            frontier = instant_text(stats["frontier"])
            self._print(f"continuing from {checkpoint}: {rows:,} rows were read before, frontier {frontier}")

    def observe(self, report: Callable[[], Report]) -> None:
        now = self._clock.now()
        usual = _AS_LINES if self._live is None else _IN_PLACE
        if self.quiet or now - self._shown < (usual if self._seconds is None else self._seconds):
            return
        seen = report()
        # The rate since the last display: a mean over the whole run would count the time of the start.
        rate = (seen.rows_in - self._rows) / max(now - self._shown, 1e-9)
        self._shown, self._rows = now, seen.rows_in
        facts = {
            "rows": f"{seen.rows_in:,}",
            "rows/s": f"{rate:,.0f}",
            "frontier": instant_text(seen.frontier),
            "state rows": f"{seen.stored_rows:,}",
            "state MB": f"{seen.stored_bytes / 1e6:,.1f}",
        }
        if self._live is not None:
            self._live.update(_table(facts, _named_by_user(seen.results)), refresh=True)
        else:
            results = ", ".join(f"{name} {count:,}" for name, count in _named_by_user(seen.results).items())
            self._print(" | ".join(f"{k} {v}" for k, v in facts.items()) + f" | {results}")

    def summary(self, stats: dict[str, Any], derived: Collection[str] = ()) -> None:
        """Print what a run did. Rows of `derived` streams are not counted: queries of the job made them."""
        if self.quiet:
            return
        before = self._before
        there = _rows_of(before, derived)
        rows = _rows_of(stats, derived) - there
        rate = rows / stats["elapsed_s"] if stats["elapsed_s"] else 0.0
        self._print(
            f"{rows:,} {'new ' if before else ''}rows in {stats['elapsed_s']:.2f} s ({rate:,.0f} rows/s), {stats['epochs']} epochs, "
            f"at most {stats['peak_stored_rows']:,} rows stored"
            + (f"; {there:,} rows were read before" if before else "")
        )
        for name, count in _named_by_user(stats["results"]).items():
            figures = stats.get("templates", {}).get(name)
            earlier = before.get("results", {}).get(name, 0)
            made = f"{count:,} results" if not before else f"{count - earlier:,} new results, {earlier:,} before"
            answered = 0 if figures is None else figures["answered"]
            requests = f"{answered:,} request{'' if answered == 1 else 's'} answered"
            self._print(f"  {name}: {made if figures is None else requests}")
        if still_open := stats.get("left_open"):
            counted = ", ".join(f"{count:,} of {name}" for name, count in still_open.items())
            self._print(f"  open windows and rows: {counted}; later rows, a heartbeat or --final close them")
        for name, count in stats.get("unseen", {}).items():
            self._print(f"  {count:,} rows or groups of {name} came and went between two outputs and were never shown")
        for kind in ("late", "bad"):
            for name, count in stats[kind].items():
                earlier = before.get(kind, {}).get(name, 0)
                if count > earlier:
                    text = f"  {count - earlier:,} {kind} rows of {name} went to the dead-letter output"
                    self._print(text + (f", {earlier:,} before" if earlier else ""))

    def _print(self, text: str) -> None:
        self.console.print(text, highlight=False, soft_wrap=True)


def _line(text: Warning | str) -> None:
    """A warning as one line, also with --quiet."""
    print(f"warning: {text}", file=sys.stderr, flush=True)


def _rows_of(stats: Mapping[str, Any], derived: Collection[str]) -> int:
    """Rows that sources gave, in figures that may be empty."""
    return sum(count for name, count in _named_by_user(stats.get("rows_in", {})).items() if name not in derived)


def _named_by_user(counts: Mapping[str, int]) -> dict[str, int]:
    """Without the streams and queries behind subqueries and outer joins, whose names begin with _."""
    return {name: count for name, count in counts.items() if not name.startswith("_")}


def instant_text(micros: int | None) -> str:
    """An instant in UTC, to the millisecond."""
    if micros is None:
        return "-"
    try:
        return datetime.fromtimestamp(micros / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    except (OverflowError, ValueError, OSError):
        return str(micros)


def _table(facts: dict[str, str], results: Mapping[str, int]) -> Table:
    table = Table(show_header=True, header_style="bold")
    for name in facts:
        table.add_column(name, justify="right")
    table.add_column("results")
    table.add_row(*facts.values(), "\n".join(f"{name} {count:,}" for name, count in list(results.items())[:20]))
    return table
