"""Where content can be beside the tables, and what PostgreSQL lets us do there."""
