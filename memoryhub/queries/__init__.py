"""Queries: read, never write. Frozen values from a constant number of statements."""
