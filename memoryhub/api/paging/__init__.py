"""Routes of pages and the working set."""
