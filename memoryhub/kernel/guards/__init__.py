"""Rules for an agent's own tool calls: names, numbers, bindings, verdicts."""
