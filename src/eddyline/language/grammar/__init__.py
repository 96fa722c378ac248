"""From tokens to syntax trees: the clauses of each statement, in their order."""
