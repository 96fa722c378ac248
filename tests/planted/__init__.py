"""Faults that tests must find."""
