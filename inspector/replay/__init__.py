"""A thread at any event, with all its panels."""
