"""Imports of threads from files."""
