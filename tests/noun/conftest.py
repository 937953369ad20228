"""Files of the noun are run in their copy only."""

collect_ignore = ["files"]
