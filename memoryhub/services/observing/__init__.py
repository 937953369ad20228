"""Observing: what is observed of threads, by us, by agents and by models."""
