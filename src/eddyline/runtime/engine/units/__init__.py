"""The kinds of queries that there are, one file per kind: how a query of the kind stands in its unit, and what the unit
does."""
