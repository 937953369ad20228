"""What the server itself keeps: ids, clocks, leases, heartbeats."""
