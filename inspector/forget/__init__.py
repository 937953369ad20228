"""Screens of erasing, its receipts and tombstones."""
