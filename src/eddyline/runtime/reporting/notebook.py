"""HTML for sessions, queries and plans in a notebook, without a server.

Answer   `session_html`, `query_html` and `Plan._repr_html_` give small tables and the drawing of a plan, every value
         escaped.
State    None.
Limits   A query shows rows that no `take` has returned yet, and leaves them there. The packages of the dashboard are not
         needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import pyarrow as pa

from eddyline.plan.picture import draw
from eddyline.plan.shape import Part
from eddyline.runtime.reporting.samples import shown

#: How many rows of a query, and how many queries of a session are shown.
ROWS, _QUERIES = 10, 50


@dataclass(frozen=True, slots=True)
class Plan:
    """How a query is answered: as text, and in a notebook as a drawing."""

    text: str
    shape: Part

    def __str__(self) -> str:
        return self.text

    def svg(self) -> str:
        return draw(self.shape)

    def _repr_html_(self) -> str:
        return f"{self.svg()}<pre>{escape(self.text)}</pre>"


def query_html(name: str, sql: str, schema: pa.Schema, tables: Iterable[pa.Table], said: str) -> str:
    """SQL, schema, what is `said` of its state, and the first rows that no `take` has returned."""
    first: list[Sequence[object]] = []
    for table in tables:
        part = table.slice(0, ROWS - len(first))
        first += list(zip(*(column.to_pylist() for column in part.columns), strict=True))
        if len(first) >= ROWS:
            break
    heads = [f"{escape(field.name)}<br><small>{escape(str(field.type))}</small>" for field in schema]
    rows = _table(heads, first) if first else _table(heads, []) + "<p><i>no rows to take</i></p>"
    return f"<p><b>query {escape(name)}</b> ({escape(said)})</p><pre>{escape(sql)}</pre>{rows}"


def session_html(
    streams: Mapping[str, Sequence[str]], queries: Mapping[str, str], stats: Mapping[str, Any] | None
) -> str:
    """Streams with their columns, queries with their SQL, and the figures of a session that runs."""
    rows_in: Mapping[str, int] = {} if stats is None else stats["rows_in"]
    results: Mapping[str, int] = {} if stats is None else stats["results"]
    listed = [(name, ", ".join(columns), rows_in.get(name, "")) for name, columns in streams.items()]
    first = [(name, sql, results.get(name, "")) for name, sql in list(queries.items())[:_QUERIES]]
    parts = ["<p><b>eddyline session</b></p>", _table(["stream", "columns", "rows"], listed)]
    parts.append(_table(["query", "SQL", "results"], first))
    if len(queries) > _QUERIES:
        parts.append(f"<p>and {len(queries) - _QUERIES:,} more queries</p>")
    if stats is None:
        parts.append("<p><i>no rows yet</i></p>")
    else:
        figures = [stats[name] for name in ("epochs", "peak_stored_rows", "state_bytes")]
        parts.append(_table(["epochs", "rows stored at most", "state in bytes"], [figures]))
    return "".join(parts)


def _table(heads: Iterable[str], rows: Iterable[Sequence[object]]) -> str:
    """`heads` are HTML; rows hold any values."""
    head = "".join(f'<th style="text-align:left">{one}</th>' for one in heads)
    body = "".join(
        "<tr>" + "".join(f'<td style="text-align:left">{_cell(value)}</td>' for value in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: object) -> str:
    if value is None:
        return "<i>NULL</i>"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else escape(str(shown(value)))
