"""Sinks for results, whose files are complete or not there, and dead letters."""
