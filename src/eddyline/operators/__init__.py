"""Operators: what is computed on whole columns, from the arrival of a row to a result."""
