"""Replay of a thread at any event, with all its panels."""
