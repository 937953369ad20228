"""Connecting: a key, a first message, and the thread that it makes."""
