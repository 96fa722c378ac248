"""The words of the engine: frozen values without state, input or output."""
