"""Screens of erasures, receipts, tombstones and the audit log."""
