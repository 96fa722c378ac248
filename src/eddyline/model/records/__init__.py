"""What is said of a stream at a place of its order, beside its rows."""
