"""The event chain of a thread, its heads and the notices of new events."""
