"""Zones in joins: stretches of rows that are skipped, passed or evaluated as a whole."""
