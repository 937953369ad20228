"""Rows that follow from events, and how they are written again."""
