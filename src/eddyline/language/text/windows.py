"""The window clause, and spans of time wherever they are written.

Answer   `[RANGE 10 MINUTES]`, `[ROWS 10]`, `[PARTITION BY k ROWS 10]`, `[NOW]`, `[UNBOUNDED]` to windows; '10 minutes'
         to microseconds.
Limits   Units have a fixed length: months and years are refused.
"""

from __future__ import annotations

import re
from fractions import Fraction

from eddyline.errors import Position, SyntaxProblem, Unsupported
from eddyline.language.syntax import Constant
from eddyline.language.text.reader import StatementReader
from eddyline.model.window import NOW, UNBOUNDED, PartitionedRows, Range, Rows, Window
from eddyline.settings import MICROS, unit_micros

_HINT = "for example '10 minutes', '500 milliseconds' or '1 hour 30 minutes'"
_WINDOWS = "windows are [RANGE 10 MINUTES], [ROWS 10], [PARTITION BY column ROWS 1], [NOW] and [UNBOUNDED]"
#: Ten thousand years: more than lies between any two valid timestamps.
LONGEST = 10_000 * 366 * MICROS["day"]
#: The largest number of rows a ROWS window may name.
MOST_ROWS = 2**31 - 1


def parse_span(text: str, position: Position | None = None) -> int:
    """A span of time in microseconds.

    >>> parse_span("1 hour 30 minutes")
    5400000000
    """
    stripped = text.strip()
    if re.fullmatch(r"0+", stripped):
        return 0
    parts = re.findall(r"([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*([a-z]+)", stripped, re.IGNORECASE)
    rest = re.sub(r"([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*([a-z]+)", "", stripped, flags=re.IGNORECASE)
    if not parts or rest.strip():
        raise SyntaxProblem(f"'{text}' is not a span of time", hint=_HINT, position=position)
    total = sum((Fraction(number) * _unit(word, position) for number, word in parts), Fraction(0))
    if total.denominator != 1:
        raise SyntaxProblem(f"'{text}' is not a whole number of microseconds", position=position)
    if total > LONGEST:
        raise SyntaxProblem(
            f"'{text}' is too long a span", hint="10,000 years are the most; [UNBOUNDED] never ends", position=position
        )
    return int(total)


def _unit(word: str, position: Position | None) -> int:
    size = unit_micros(word)
    if size is not None:
        return size
    if word.lower().removesuffix("s") in ("month", "quarter", "year"):
        raise Unsupported(f"a span in {word} has no fixed length", hint="give it in days", position=position)
    raise SyntaxProblem(
        f"there is no unit of time {word}",
        hint="units are microseconds, milliseconds, seconds, minutes, hours, days and weeks",
        position=position,
    )


def read_span(reader: StatementReader) -> int:
    """`10 MINUTES`, `1 HOUR 30 MINUTES` or `'10 minutes'`, in microseconds."""
    position = reader.position
    if reader.next.kind == "string":
        reader.index += 1
        return parse_span(reader.tokens[reader.index - 1].text, position)
    parts: list[str] = []
    while not parts or reader.next.kind == "number":
        parts.append(reader.number("a span of time such as 10 MINUTES"))
        if reader.next.kind == "word":
            parts.append(reader.word("a unit of time"))
        else:
            reader.fail("expected a unit of time", hint="for example 10 MINUTES")
    return parse_span(" ".join(parts), position)


def read_instant(reader: StatementReader, word: str) -> Constant:
    """The instant after AT or AS OF."""
    position = reader.position
    found = reader.expression()
    if not isinstance(found, Constant) or found.kind not in ("timestamp", "string"):
        raise SyntaxProblem(
            f"{word} takes an instant", hint=f"{word} TIMESTAMP '2024-01-01 12:00:00'", position=position
        )
    return Constant("timestamp", found.value, position=found.position)


def read_at(reader: StatementReader, call: str) -> Constant:
    """AT and the instant of a record; `call` is the method of a session that needs no instant."""
    if not reader.take("AT"):
        reader.fail("expected AT", hint=f"a statement names the instant: AT TIMESTAMP '…'; {call} does without")
    return read_instant(reader, "AT")


def read_window(reader: StatementReader) -> Window | None:
    """The window clause, if one comes next."""
    if not reader.take("["):
        return None
    window: Window
    if reader.take("RANGE"):
        window = Range(read_span(reader))
    elif reader.take("ROWS"):
        window = Rows(_row_count(reader))
    elif reader.take("UNBOUNDED"):
        window = UNBOUNDED
    elif reader.take("NOW"):
        window = NOW
    elif reader.take("PARTITION"):
        window = _partitioned(reader)
    else:
        reader.fail("expected RANGE, ROWS, PARTITION BY, NOW or UNBOUNDED", hint=_WINDOWS)
    if not reader.take("]"):
        reader.fail("expected ]", hint=_WINDOWS)
    return window


def _partitioned(reader: StatementReader) -> PartitionedRows:
    """`BY column, … ROWS n`."""
    reader.expect("BY", hint=_WINDOWS)
    columns = reader.names("a column")
    reader.expect("ROWS", hint=_WINDOWS)
    return PartitionedRows(columns, _row_count(reader))


def _row_count(reader: StatementReader) -> int:
    position = reader.position
    text = reader.number("a number of rows")
    if not text.isdigit() or not 1 <= int(text) <= MOST_ROWS:
        raise SyntaxProblem(
            f"[ROWS {text}] is not a window", hint="ROWS takes a whole number, 1 or more", position=position
        )
    return int(text)
