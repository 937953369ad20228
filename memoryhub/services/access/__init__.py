"""API keys, operators and projects: access control."""
