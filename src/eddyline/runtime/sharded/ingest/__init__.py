"""Rows and control records into packets, on the way to their shards."""
