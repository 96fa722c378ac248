"""How a query is answered: from a bound query to a checked plan, and its text."""
