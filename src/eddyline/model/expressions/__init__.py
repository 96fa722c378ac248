"""Typed expressions, and the table of functions with their typing rules."""
