"""Shards in Spark's Python workers."""
