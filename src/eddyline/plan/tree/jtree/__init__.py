"""The search for a join tree: one file per method."""
