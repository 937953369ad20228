"""The palette: search for content, pages and actions by typing a few letters."""
