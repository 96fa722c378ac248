"""Reading and writing: files, pushed rows, results, dead letters, synthetic streams."""
