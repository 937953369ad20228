"""Rows of what is known of subjects beyond one thread."""
