"""Searching on the wire: a thread, and all that is remembered of a subject."""
