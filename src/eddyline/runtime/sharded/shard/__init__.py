"""The engine of one shard between two batches."""
