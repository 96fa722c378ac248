"""Small benchmarks of single parts of the engine."""
