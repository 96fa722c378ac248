"""Queries as text in random cases: for what the oracle answers in another way than by combinations."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TextQuery:
    """Stands in a `Case` where a `QuerySpec` would; `before` are statements that it needs."""

    name: str
    text: str
    before: tuple[str, ...] = ()

    def statements(self) -> list[str]:
        return [*self.before, f"CREATE QUERY {self.name} AS {self.text}"]
