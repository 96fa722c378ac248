"""Sinks that Spark writes."""
