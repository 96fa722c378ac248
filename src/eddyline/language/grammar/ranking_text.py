"""The grammar of ORDER BY … LIMIT, and the number of rows of a QUALIFY.

Answer   `read_limit` reads ORDER BY and LIMIT; `most_rows` finds the ROW_NUMBER of a QUALIFY, and up to which number
         rows are wanted.
"""

from __future__ import annotations

from eddyline.errors import BindingProblem, Unsupported
from eddyline.language.syntax import Apply, Constant, Name, Node, Ordered, Over
from eddyline.language.text.reader import StatementReader

QUALIFY = "QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY x DESC) <= 3"
_LIMIT = "ORDER BY x DESC LIMIT 3"
_TURNED = {"<=": ">=", "<": ">", ">=": "<=", ">": "<", "=": "="}


def read_limit(reader: StatementReader) -> tuple[tuple[Ordered, ...], int | None]:
    """`ORDER BY … LIMIT n`, or nothing."""
    start = reader.position
    if reader.at("LIMIT"):
        raise Unsupported("LIMIT without ORDER BY is not supported", hint=_LIMIT, position=start)
    if not reader.take("ORDER"):
        return (), None
    reader.expect("BY")
    order = reader.listed(_ordered)
    if not reader.take("LIMIT"):
        raise Unsupported(
            "ORDER BY without LIMIT is not supported",
            hint=f"results are delivered in the order of their time, _ts; {_LIMIT} chooses the first ones",
            position=start,
        )
    text = reader.number("a number of rows")
    if not text.isdigit() or int(text) < 1:
        raise Unsupported(f"LIMIT {text} is not supported", hint=_LIMIT, position=start)
    return order, int(text)


def _ordered(reader: StatementReader) -> Ordered:
    value = reader.expression()
    descending = reader.take("DESC")
    if not descending:
        reader.take("ASC")
    nulls_first = reader.take("NULLS", "FIRST")
    if not nulls_first:
        reader.take("NULLS", "LAST")
    return Ordered(value, descending, nulls_first)


def most_rows(node: Node, named: dict[str, Over]) -> tuple[Over, int]:
    """`named` are the outputs that are row numbers."""
    if isinstance(node, Apply) and node.function in _TURNED and len(node.args) == 2:
        left, right = (_resolved(side, named) for side in node.args)
        function = node.function
        if isinstance(right, Over):
            left, right, function = right, left, _TURNED[function]
        if (
            isinstance(left, Over)
            and isinstance(right, Constant)
            and isinstance(right.value, int)
            and right.kind == "integer"
        ):
            most = right.value - (function == "<")
            if function in ("<=", "<", "=") and most >= 1 and (function != "=" or most == 1):
                return left, most
    raise BindingProblem(
        "QUALIFY compares a ROW_NUMBER with a number",
        detail="rows are wanted from the first one on: <= n, < n, or = 1",
        hint=QUALIFY,
        position=node.position,
    )


def _resolved(node: Node, named: dict[str, Over]) -> Node:
    return named.get(node.name.lower(), node) if isinstance(node, Name) and node.table is None else node
