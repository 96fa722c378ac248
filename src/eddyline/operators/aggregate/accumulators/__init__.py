"""What is kept per group, for each kind of aggregate."""
