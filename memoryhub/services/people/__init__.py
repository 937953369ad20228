"""Acts on subjects: restriction, legal holds."""
