"""Parsing that survives a parser that ends its process."""
