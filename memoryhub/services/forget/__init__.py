"""Erasures: their plans, steps, ledger and receipts."""
