"""Working memory, its checkpoints and comparisons."""
