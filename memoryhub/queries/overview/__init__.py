"""Figures of the overview: activity of a project, and all that needs a look."""
