"""Results from shards to sinks."""
