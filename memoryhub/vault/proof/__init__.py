"""Signatures, chained files and anchors, as proof of erasures and of history."""
