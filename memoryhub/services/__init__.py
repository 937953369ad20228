"""Services: acts of agents and operators, also across threads."""
