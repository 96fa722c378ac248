"""Heralds: records with a condition that the next rows of a stream satisfy.

Answer   A `Herald` is a condition and a span: the next n rows, or all rows up to a distance in event time. `TextHeralds` holds
         the heralds of many texts.
Limits   A condition is a conjunction of conditions on one column each, with literals. The body of a record is the text
         of the herald.
Reading  docs/heralds.md
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from eddyline.errors import UserError
from eddyline.model.expressions.expression import Expression

if TYPE_CHECKING:
    from eddyline.model.records.records import Ints, Records

#: The name of the kind of record, and the column of its body.
KIND = "herald"
TEXT = "herald"
#: The span in the other unit: beyond the last row of every stream, and beyond every instant.
NEVER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Herald:
    """The rows in its span satisfy the condition; one of `rows` and `micros` is given."""

    condition: Expression
    rows: int | None
    micros: int | None
    #: As written.
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Alike:
    """Heralds of one form: the same condition with other numbers."""

    #: The condition of one of them. The literals of the others take the places of its literals, in order.
    condition: Expression
    #: The numbers of their texts; the literals of each, a line per herald.
    at: Ints
    literals: Ints


@dataclass(frozen=True, slots=True, eq=False)
class TextHeralds:
    """The heralds of many texts, by the numbers of the texts."""

    #: The span of each text; NEVER: it is in the other unit, or the text is no herald.
    rows: Ints
    micros: Ints
    alike: list[Alike] = field(default_factory=list)
    #: Heralds that were parsed one by one, and the problems of texts that are no heralds.
    single: dict[int, Herald] = field(default_factory=dict)
    problems: dict[int, UserError] = field(default_factory=dict)


def spans_rows(records: Records) -> bool:
    """Whether a herald among records has a number of rows for its span."""
    if records.kind != KIND:
        return False
    return any(re.search(r"\bROWS?\s*$", text, re.IGNORECASE) for text in records.body.column(TEXT).to_pylist())
