"""Erasures: plans, progress, receipts, what waits."""
