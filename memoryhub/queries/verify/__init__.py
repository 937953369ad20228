"""Checks of stored rows against the journal, and checks of the server."""
