"""Connecting an agent: a key, a first message, and the thread that it creates."""
