"""The slow, obvious computation that everything is compared with."""
