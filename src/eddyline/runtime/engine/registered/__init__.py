"""Registered queries: what each kind makes of the combinations of its join."""
