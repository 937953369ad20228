"""Models of access: API keys, operators, and the audit log."""
