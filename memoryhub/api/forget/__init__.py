"""Routes of erasures and receipts."""
