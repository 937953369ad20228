"""Acts on threads and slots."""
