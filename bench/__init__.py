"""Benchmarks: see README.md for the four kinds and the question that each answers."""
