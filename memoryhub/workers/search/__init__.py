"""Workers of search."""
