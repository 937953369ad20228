"""Overview of a project: what needs attention, since when, and its activity."""
