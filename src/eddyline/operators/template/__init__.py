"""Templates: group-bys answered on request."""
