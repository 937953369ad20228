"""Decisions become events and rows, in one transaction."""
