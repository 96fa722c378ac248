"""Expressions computed on whole columns."""
