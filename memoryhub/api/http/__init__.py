"""Shared parts of all routes: keys, limits, reading, preconditions."""
