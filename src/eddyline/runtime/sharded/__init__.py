"""A batch of a job on several shards, whoever runs its tasks; no Spark."""
