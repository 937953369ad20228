"""Writing: turns decisions into events and rows, in one transaction."""
