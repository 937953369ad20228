"""How older messages of a thread are observed, as people look at it."""
