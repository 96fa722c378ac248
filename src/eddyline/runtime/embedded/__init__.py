"""The embedded driver: a pipeline in this process, fed from sources, for development, tests and small jobs."""
