"""Removal of erased content from the state of a thread."""
