"""Screens of subjects."""
