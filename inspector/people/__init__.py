"""Screens of subjects, their episodes, restrictions and holds."""
