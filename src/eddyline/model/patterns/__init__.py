"""Event patterns, the constraints on traces, and workflows."""
