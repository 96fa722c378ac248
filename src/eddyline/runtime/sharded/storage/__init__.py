"""What shards keep between two batches, as whole objects."""
