"""What conditions say about ranges of values and about event times."""
