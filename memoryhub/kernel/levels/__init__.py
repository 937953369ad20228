"""Levels of a page: shorter forms of its text, and how to make each."""
