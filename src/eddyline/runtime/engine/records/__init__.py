"""Records among the rows of streams: punctuations and heralds."""
