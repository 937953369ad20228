"""Exports of a subject's memory, and imports of exported bundles."""
