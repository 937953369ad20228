"""Rule of what leaves the working set: pins, groups, precedence and eviction runs."""
