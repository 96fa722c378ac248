"""The kind of reason that a dead letter gives, apart from what varies from row to row.

Answer   `kinds_of` gives for each reason its kind: the text without the instant, the file and line, the value, the trace
         and the queries of the case. `instants_of` gives the instant that a reason names, as text.

             late: event time lies before 2026-11-19T03:45:42, the newest seen minus lateness; missed by a, b
             ─► late: event time lies before the instant, the newest seen minus lateness

State    None.
Limits   Whole columns: a push of a million bad rows has a million reasons. A reason of an unknown form is a kind of its
         own, apart from instants and quoted values.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

_INSTANT = r"[+-]?\d{4,6}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?"
#: What varies, and what stands in its place; in this order. RE2: `(?s)` because a value may have several lines.
_VARYING = (
    (r"(?s); missed by .*$", ""),
    (r"(?s), trace .*$", ""),
    (r"(?s)^bad: .*? (?:line|row) \d+: ", "bad: "),
    (r"(?s)^bad: .+ cannot be read.*$", "bad: a file cannot be read"),
    (r"(?s)( is declared as .+? and holds) .*$", r"\1 another value"),
    (r"(?s)( is outside the years 1 to 9999): .*$", r"\1"),
    (_INSTANT, "the instant"),
    (r"(?s)'[^']*'", "'…'"),
)


def kinds_of(reasons: pa.Array) -> pa.Array:
    """
    >>> kinds_of(pa.array(["bad: f.csv line 7: column k is declared as BIGINT and holds 'x'"])).to_pylist()
    ['bad: column k is declared as BIGINT and holds another value']
    """
    for pattern, instead in _VARYING:
        reasons = pc.replace_substring_regex(reasons, pattern, instead)
    return reasons


def instants_of(reasons: pa.Array) -> pa.Array:
    """The instant in each reason; null where it names none.

    >>> instants_of(pa.array(["late: event time lies before 2026-11-19T03:45:42, the newest", "bad"])).to_pylist()
    ['2026-11-19 03:45:42', None]
    """
    found = pc.extract_regex(reasons, f"(?P<day>[+-]?\\d{{4,6}}-\\d\\d-\\d\\d)T(?P<time>{_INSTANT.split('T', 1)[1]})")
    return pc.binary_join_element_wise(pc.struct_field(found, "day"), pc.struct_field(found, "time"), " ")
