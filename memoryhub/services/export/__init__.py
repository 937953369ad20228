"""Writing an export."""
