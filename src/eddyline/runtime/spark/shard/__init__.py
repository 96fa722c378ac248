"""The engine of one shard between two micro-batches."""
