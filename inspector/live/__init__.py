"""Panels, and how they are pushed to the pages that watch."""
