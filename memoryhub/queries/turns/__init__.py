"""Turns, recorded requests and what changed between them."""
