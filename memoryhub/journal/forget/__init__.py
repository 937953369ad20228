"""Taking content out of the journal for good."""
