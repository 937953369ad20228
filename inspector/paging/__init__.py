"""Screens of pages and the working set."""
