"""What constraints mean for event patterns, before and while they run."""
