"""Rows, groups and values that punctuations have finished: when they end, and what forgets or announces them."""
