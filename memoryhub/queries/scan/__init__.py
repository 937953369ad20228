"""Surfaces that a scan reads, and residue that a scan may leave."""
