"""Places outside the tables that can hold content, and rights on PostgreSQL."""
