"""A thread and its slots."""
