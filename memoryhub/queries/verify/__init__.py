"""Checks of stored rows against the journal."""
