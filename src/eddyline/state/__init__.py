"""What operators remember: one kind of store, indexes that can be rebuilt from it, snapshots."""
