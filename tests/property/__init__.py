"""Random cases: what they are, how they are drawn, and how an engine's outcome is compared with the oracle's."""
