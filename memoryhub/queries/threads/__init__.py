"""Threads, their slots, events and forks."""
