"""The benchmarks are tools that we trust: they are tested like the engine."""
