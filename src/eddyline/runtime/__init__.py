"""Drivers and the engine that they run."""
