"""How new rows of a join input find their partners: steps, indexes, verification."""
