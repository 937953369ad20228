"""Views: read queries, build a context, render. Writes are form posts."""
