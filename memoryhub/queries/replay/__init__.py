"""States of a thread, now and as of any event."""
