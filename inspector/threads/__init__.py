"""Screens of threads, slots, events, forks, imports and project settings."""
