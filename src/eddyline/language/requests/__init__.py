"""Templates and requests: bound, and read from texts."""
