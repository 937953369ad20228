"""Files of an export, and lists of imports."""
