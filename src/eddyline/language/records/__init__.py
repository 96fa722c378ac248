"""Punctuations and heralds: their statements, options of streams, and texts."""
