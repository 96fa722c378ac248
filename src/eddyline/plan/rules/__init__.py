"""Rules that rewrite bound queries: one file per rule."""
