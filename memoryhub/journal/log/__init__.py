"""The chain of events of a thread, its heads and its bell."""
