"""Rows that follow from events: how they are built, written and rebuilt."""
