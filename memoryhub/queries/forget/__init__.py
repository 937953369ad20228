"""Erasures: plans, progress, receipts, holds and expiry."""
