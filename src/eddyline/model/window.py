"""Windows: which rows of one reference are present.

Answer   `Range(w)`: rows not older than w microseconds (inclusive); `Rows(k)`: the last k rows of the stream;
         `UNBOUNDED`: all rows; `NOW`: a row only as the newest of its combination; `PartitionedRows(columns, k)`: the
         last k rows per value of some columns. SEMANTICS ("Windows, per reference in FROM") has the definitions.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Longer than any difference of two valid timestamps, short enough that `ts + FOREVER` cannot overflow an int64.
FOREVER = 4 * 10**18


@dataclass(frozen=True, slots=True)
class Range:
    micros: int

    def __str__(self) -> str:
        return f"RANGE {span_text(self.micros)}"


@dataclass(frozen=True, slots=True)
class Rows:
    count: int

    def __str__(self) -> str:
        return f"ROWS {self.count}"


@dataclass(frozen=True, slots=True)
class Unbounded:
    def __str__(self) -> str:
        return "UNBOUNDED"


@dataclass(frozen=True, slots=True)
class Now:
    def __str__(self) -> str:
        return "NOW"


@dataclass(frozen=True, slots=True)
class PartitionedRows:
    columns: tuple[str, ...]
    count: int

    def __str__(self) -> str:
        return f"PARTITION BY {', '.join(self.columns)} ROWS {self.count}"


UNBOUNDED = Unbounded()
NOW = Now()
Window = Range | Rows | Unbounded | Now | PartitionedRows

_UNITS = (
    ("DAYS", 86_400_000_000),
    ("HOURS", 3_600_000_000),
    ("MINUTES", 60_000_000),
    ("SECONDS", 1_000_000),
    ("MILLISECONDS", 1_000),
)


def span_text(micros: int) -> str:
    """A span in its largest whole unit.

    >>> span_text(600_000_000)
    '10 MINUTES'
    """
    for name, size in _UNITS:
        if micros and micros % size == 0:
            return f"{micros // size} {name if micros != size else name[:-1]}"
    return f"{micros} MICROSECONDS"
