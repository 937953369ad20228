"""Readers and writers of other systems' files."""
