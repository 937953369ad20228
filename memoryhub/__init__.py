"""MemoryHub: an append-only, replayable, erasable memory for AI agents."""

__version__ = "0.1.0"
