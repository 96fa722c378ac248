"""The engine of one process or shard: epochs in, results out; no clock, no file, no thread."""
