"""From a syntax tree to a bound query: names and types resolved, clauses checked."""
