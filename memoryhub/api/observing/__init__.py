"""Routes of observing."""
