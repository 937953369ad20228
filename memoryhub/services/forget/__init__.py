"""Erasing, step by step, with its ledger and receipt."""
