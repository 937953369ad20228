"""Acts on turns."""
