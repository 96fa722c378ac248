"""`eddyline lab TOOL …`: tools for research."""
