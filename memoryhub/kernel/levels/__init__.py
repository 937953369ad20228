"""Text and token cost of a page in a request, at each level."""
