"""Shared windows, worked off in an order that serves small windows first."""
