"""Screens of signing in, members, API keys and projects."""
