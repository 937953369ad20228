"""Screens of facts and blocks: knowledge of a subject beyond one thread."""
