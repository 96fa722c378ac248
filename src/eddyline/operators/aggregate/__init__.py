"""Grouped aggregates over live combinations, kept up to date as rows come and windows slide."""
