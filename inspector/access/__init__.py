"""Signing in, members, API keys, projects, the audit."""
