"""Encryption keys, and the sealing of content with keys."""
