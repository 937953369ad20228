"""Screens of turns: list, request, changes and prefix."""
