"""Keys, operators and projects: who may do what."""
