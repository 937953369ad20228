"""Routes of a subject's knowledge beyond one thread."""
