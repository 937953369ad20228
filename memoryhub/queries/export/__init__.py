"""Files of an export, and imports."""
