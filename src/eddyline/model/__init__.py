"""The values that all rooms share: frozen, without state, input or output."""
