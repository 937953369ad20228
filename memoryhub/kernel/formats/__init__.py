"""Files of other systems, read and written."""
