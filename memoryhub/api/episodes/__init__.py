"""Routes of episodes."""
