"""Erasure of content from the journal for good."""
