"""The way of a stream's rows from their arrival to its store."""
