"""Where a scan looks, and what it finds."""
