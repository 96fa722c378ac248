"""The kinds of queries that there are, one file per kind: how queries of the kind are registered, and how they run."""
