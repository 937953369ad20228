"""Routes of search: in a thread, and in all memory of a subject."""
