"""Subjects and what is kept of them."""
