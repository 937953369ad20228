"""Turns, runs and the tools that an agent brings."""
