"""Observations of threads. Never writes."""
