"""Taking in threads from files."""
