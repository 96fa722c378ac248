"""Work that several queries or groups have in common, done once."""
