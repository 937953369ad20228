"""What a request shows of a page, at each level, and what that costs."""
