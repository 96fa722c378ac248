"""Queries over queries: what FROM can hold beside streams and tables."""
