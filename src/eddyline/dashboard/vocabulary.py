"""What a page may write: the names of a job, and the words of the language.

Answer   `vocabulary` has the streams, tables and templates of a job with their columns, the names of its queries, every
         function with its signature, the words of statements, and the settings. A page completes what is typed from it
         and makes its forms of it.
State    None: the catalog is given.
Limits   Names that only a statement gives (aliases, queries in FROM) are not here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from eddyline.language.catalog import Catalog
from eddyline.model.expressions.functions import AGGREGATES, FUNCTIONS
from eddyline.model.schema import Column, Stream, Table
from eddyline.model.template import Template
from eddyline.model.triggers import CHANGEABLE
from eddyline.model.window import Range
from eddyline.settings import OPTIONS

#: The words of the statements that a running job takes, and of their clauses; docs/reference/statements.md.
KEYWORDS = (
    "ALL MATCHES", "AND", "AS", "AS OF", "BETWEEN", "CASE", "CAST", "CREATE PUNCTUATION", "CREATE QUERY", "CREATE SINK",
    "CREATE STREAM", "CROSS JOIN", "DESC", "DISTINCT", "ELSE", "EMIT EVERY", "EMIT ON CHANGE", "EMIT ON CLOSE", "END", "EVENT", "EXISTS",
    "FALSE", "FIRST MATCH", "FOR", "FROM", "FULL JOIN", "GROUP BY", "HAVING", "IN", "INTERVAL", "IS NOT NULL", "IS NULL", "JOIN",
    "LATEST", "LEFT JOIN", "LIKE", "LIMIT", "MINUTES", "NOT", "NOT EXISTS", "NOW", "NULL", "ON", "OR", "ORDER BY", "OVER", "PARTITION BY",
    "QUALIFY", "RANGE", "REQUEST", "RETURN", "RIGHT JOIN", "ROWS", "SECONDS", "SELECT", "SEQ", "SET", "THEN", "TIMESTAMP", "TRUE",
    "TYPE", "UNBOUNDED", "UNION ALL", "UNNEST", "WHEN", "WHERE", "WITH", "WITHIN",
)  # fmt: skip


def vocabulary(catalog: Catalog) -> dict[str, Any]:
    return {
        "streams": [_source(one) for one in catalog.streams.values()],
        "tables": [_source(one) for one in catalog.tables.values()],
        "templates": [_template(one) for one in catalog.templates.values()],
        "queries": list(catalog.queries),
        "functions": [{"name": name, "signature": signature, "help": text} for name, signature, text in _functions()],
        "keywords": list(KEYWORDS),
        "settings": [
            {"name": name, "help": one.help, "values": one.values, "changes": name in CHANGEABLE}
            for name, one in OPTIONS.items()
            if one.experiment is not True
        ],
    }


def _functions() -> Iterator[tuple[str, str, str]]:
    """What is written as a name with arguments, without operators."""
    for name, one in FUNCTIONS.items():
        if one.signature.startswith(f"{name}("):
            yield name, one.signature, one.help
    for name, (signature, text) in AGGREGATES.items():
        yield name, signature, text


def _source(source: Stream | Table) -> dict[str, Any]:
    return {"name": source.name, "columns": _columns(source.schema.columns)}


def _columns(columns: Iterable[Column]) -> list[dict[str, str]]:
    return [{"name": column.name, "type": str(column.type)} for column in columns]


def _template(template: Template) -> dict[str, Any]:
    window = template.window
    return {
        "name": template.name,
        "source": template.source,
        "window": str(window),
        "unit": "time" if isinstance(window, Range) else "rows",
        "history": template.history,
        "keys": [{"name": one.name, "type": str(one.type)} for one in template.keys],
        "aggregates": [{"name": one.name, "type": str(one.type)} for one in template.aggregates],
    }
