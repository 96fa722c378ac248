"""What sessions, queries and plans show of themselves in a notebook: HTML without a server.

Answer   `session_html`, `query_html` and `Plan._repr_html_` give small tables and the drawing of a plan, every value
         escaped.
State    None.
Limits   A query shows rows that have not been taken yet, and takes none. Nothing here needs the packages of the
         dashboard.
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

#: Rows of a query and queries of a session that are shown.
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
    """SQL, schema, what is `said` of its state, and the first rows that have not been taken."""
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
    """Streams with their columns, queries with their SQL, and what a session that runs has done."""
    rows_in: Mapping[str, int] = {} if stats is None else stats["rows_in"]
    results: Mapping[str, int] = {} if stats is None else stats["results"]
    first = list(queries.items())[:_QUERIES]
    parts = [
        "<p><b>eddyline session</b></p>",
        _table(
            ["stream", "columns", "rows"],
            [(name, ", ".join(columns), rows_in.get(name, "")) for name, columns in streams.items()],
        ),
        _table(["query", "SQL", "results"], [(name, sql, results.get(name, "")) for name, sql in first]),
    ]
    if len(queries) > _QUERIES:
        parts.append(f"<p>and {len(queries) - _QUERIES:,} more queries</p>")
    if stats is None:
        parts.append("<p><i>no rows yet</i></p>")
    else:
        figures = {
            "epochs": stats["epochs"],
            "rows stored at most": stats["peak_stored_rows"],
            "state in bytes": stats["state_bytes"],
        }
        parts.append(_table(list(figures), [list(figures.values())]))
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
