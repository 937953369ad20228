"""Services: what agents and operators do; they own what spans threads."""
