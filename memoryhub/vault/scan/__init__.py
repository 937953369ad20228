"""Looking for a text in bytes of any container."""
