"""What `eddyline shell` is made of beside its statements: lists, first rows, live results, the editor."""
