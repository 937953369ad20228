"""Working memory: keys, notes, the task, checkpoints."""
