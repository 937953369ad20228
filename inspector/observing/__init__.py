"""Screens of the observer, which condenses a thread's older messages."""
