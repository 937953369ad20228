"""What the overview needs that no page could find out: counts, and who is unhealthy."""
