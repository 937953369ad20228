"""Working memory: what a thread keeps, and checkpoints of it."""
