"""Records: punctuations and heralds at places among the rows of a stream."""
