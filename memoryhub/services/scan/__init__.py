"""Scans for content that should be gone."""
