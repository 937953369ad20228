"""Who may do what: projects, keys, operators, the audit."""
