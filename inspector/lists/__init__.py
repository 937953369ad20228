"""Lists and panels: common parts of the pages that show one."""
