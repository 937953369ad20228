"""Observation of threads, by this server, by agents and by models."""
