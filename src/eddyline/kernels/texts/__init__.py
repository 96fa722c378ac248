"""Texts as bytes: lines, JSON, and forms with numbers in them."""
