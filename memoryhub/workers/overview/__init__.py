"""Figures of the overview that are too costly for a page: counts, unhealthy threads."""
