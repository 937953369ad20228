"""Routes of subjects."""
