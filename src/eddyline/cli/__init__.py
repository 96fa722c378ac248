"""The command line: `eddyline …`."""
