"""Where content can be: in tables, files and beside them."""
