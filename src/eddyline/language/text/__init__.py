"""Tokens, numbers, types and expressions: what sqlglot reads, as the syntax tree of this language."""
