"""What each route shares: keys, limits, reading, preconditions."""
