"""Rows of knowledge about subjects beyond one thread."""
