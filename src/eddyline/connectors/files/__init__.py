"""Which files a stream reads, in which order, and how far it has come in them."""
