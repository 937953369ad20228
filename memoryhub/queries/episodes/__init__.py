"""Episodes: what happened, an exchange at a time."""
