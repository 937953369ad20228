"""Messages: one reading of every shape, and three ways to write them. Pure."""
