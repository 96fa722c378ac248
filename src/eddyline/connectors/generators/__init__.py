"""Synthetic streams with known rates, skews and disorder."""
