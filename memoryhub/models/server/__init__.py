"""Infrastructure of the server: ids, clocks, leases, heartbeats, database router."""
