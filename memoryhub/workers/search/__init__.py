"""Workers that prepare searches."""
