"""Event patterns: books of traces, machines, matches, constraints."""
