"""Screens of turns."""
