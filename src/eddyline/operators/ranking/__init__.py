"""The first rows of partitions, and rows that know those before them."""
