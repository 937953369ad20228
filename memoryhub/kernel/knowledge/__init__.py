"""Knowledge about a subject beyond one thread, held by its home thread. Pure."""
