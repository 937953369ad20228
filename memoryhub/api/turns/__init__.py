"""Routes of turns and tools."""
