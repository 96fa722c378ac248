"""Where results go: complete files or none, and rows that could not take part."""
