"""Screens of threads, slots, events and settings."""
