"""What follows from conditions for ranges of values and for event times."""
