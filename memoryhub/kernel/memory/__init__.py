"""Working memory of a thread: keys, task and notes, and their checkpoints."""
