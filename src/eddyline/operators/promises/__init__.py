"""What punctuations and heralds of a stream say, and which rows break them."""
