"""Processes that keep engines of shards, and their way to whoever has tasks for them."""
