"""Cursors, search terms and orders of lists."""
