"""What a run has left open, and what it has never shown, is counted and said."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from eddyline import Session
from eddyline.cli.progress import ProgressDisplay

STREAMS = "CREATE STREAM a (k BIGINT, ts TIMESTAMP) WITH (time='ts'); CREATE STREAM b (k BIGINT, ts TIMESTAMP) WITH (time='ts')"
FIRST = "QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) <= 2"


def figures(text: str, final: bool = False, epochs: int = 1) -> tuple[dict[str, int], dict[str, int], str]:
    """What is left open, what is unseen and what the summary says, of rows at 0, 3, 6 … 27 with keys 0, 1, 2, 0 …"""
    with Session() as session:
        session.execute(STREAMS)
        session.query("q", text)
        rows = [{"k": n % 3, "ts": f"2024-01-01 00:00:{3 * n:02d}"} for n in range(10)]
        for epoch in range(epochs):
            session.push("a", rows[epoch * 10 // epochs : (epoch + 1) * 10 // epochs])
            session.step()
        session.run(final=final)
        said = io.StringIO()
        ProgressDisplay(console=Console(file=said, width=200)).summary(session.stats())
        stats = session.stats()
        return stats["left_open"], stats["unseen"], said.getvalue()


@pytest.mark.parametrize(
    ("text", "count"),
    [
        # Windows that end at 30: rows at 21, 24, 27; of keys 1, 2, 0.
        ("SELECT k, window_end, count(*) AS n FROM a GROUP BY TUMBLE(ts, '10 seconds'), k", 3),
        ("SELECT window_end, count(*) AS n FROM (SELECT ts, k FROM a) x GROUP BY TUMBLE(_ts, '10 seconds')", 1),
        ("SELECT k, window_end FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '10' SECOND)) "
         "QUALIFY ROW_NUMBER() OVER (PARTITION BY window_end ORDER BY ts) = 1", 1),
        # Rows at 24 and 27 may still find a partner; that of 21 cannot at 27.
        ("SELECT a.k AS x, b.k AS y FROM a [RANGE 5 SECONDS] LEFT JOIN b [RANGE 5 SECONDS] ON a.k = b.k", 2),
        ("SELECT k, count(*) AS n FROM a [RANGE 5 SECONDS] GROUP BY k", 0),
    ],
)  # fmt: skip
def test_what_is_open_is_counted(text: str, count: int) -> None:
    found, _, said = figures(text)
    assert found == ({"q": count} if count else {})
    assert (f"open windows and rows: {count} of q; later rows, a heartbeat or --final close them" in said) == bool(
        count
    )
    assert figures(text, final=True)[0] == {}


@pytest.mark.parametrize(
    ("text", "epochs", "count"),
    [
        # The row at 27 is there at the end; the others have come and gone before it.
        (f"SELECT k, ts FROM a [RANGE 1 MICROSECOND] {FIRST}", 1, 9),
        # An epoch per row: the first output sees no row, each later one the row before its own.
        (f"SELECT k, ts FROM a [RANGE 10 SECONDS] {FIRST}", 10, 0),
        # All three groups have come and gone at the first output; the row at 27 brings one of them again.
        ("SELECT k, count(*) AS n FROM a [RANGE 1 MICROSECOND] GROUP BY k", 1, 3),
        # Rows at multiples of six are there at these instants: keys 0 and 2, 1, 0, 2. None has another group.
        (f"SELECT k, ts FROM a [RANGE 1 MICROSECOND] {FIRST} EMIT EVERY 6 SECONDS", 1, 4),
        ("SELECT k, ts, count(*) AS n FROM a [RANGE 1 MICROSECOND] GROUP BY k, ts EMIT EVERY 6 SECONDS", 1, 4),
        ("SELECT k, count(*) AS n FROM a [RANGE 1 MINUTE] GROUP BY k", 1, 0),
    ],
)
def test_what_is_never_shown_is_counted(text: str, epochs: int, count: int) -> None:
    _, found, said = figures(text, epochs=epochs)
    assert found == ({"q": count} if count else {})
    assert (f"{count} rows or groups of q came and went between two outputs" in said) == bool(count)
