"""Requests to templates: which rows they meet, and the groups of those."""
