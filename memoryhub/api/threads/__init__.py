"""Routes of threads, slots, events and streams."""
