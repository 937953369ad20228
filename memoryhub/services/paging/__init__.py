"""Acts on pages."""
