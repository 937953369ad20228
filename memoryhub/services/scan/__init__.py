"""Scans for content that should be erased."""
