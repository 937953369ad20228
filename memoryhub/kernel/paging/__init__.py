"""The page table, the working set, faults and evictions."""
