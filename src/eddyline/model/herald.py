"""Heralds: what the next rows of a stream are like, as a record says it.

Answer   A `Herald` is a condition and a span: the next n rows, or all rows up to a distance in event time.
Limits   A condition is a conjunction of conditions on one column each, with literals. The body of a record is the text of the herald.
Reading  docs/heralds.md
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eddyline.model.expression import Expression

if TYPE_CHECKING:
    from eddyline.model.records import Records

#: The name of the kind of record, and the column of its body.
KIND = "herald"
TEXT = "herald"


@dataclass(frozen=True, slots=True)
class Herald:
    """The rows in its span satisfy the condition; one of `rows` and `micros` is given."""

    condition: Expression
    rows: int | None
    micros: int | None
    #: As written.
    text: str


def speaks_of_rows(records: Records) -> bool:
    """Whether a herald among records has a number of rows for its span."""
    if records.kind != KIND:
        return False
    return any(re.search(r"\bROWS?\s*$", text, re.IGNORECASE) for text in records.body.column(TEXT).to_pylist())
