"""Working memory of a thread and its checkpoints."""
