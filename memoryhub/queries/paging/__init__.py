"""Pages, working sets and figures of paging."""
