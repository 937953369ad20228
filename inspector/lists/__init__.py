"""Lists and panels: what each page of one has in common."""
