"""The overview of a project: what needs a look, since when, and what it does."""
