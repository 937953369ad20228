"""Selection and order of the contents of a request."""
