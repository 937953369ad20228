"""Signatures, chained files and anchors, which show what was done."""
