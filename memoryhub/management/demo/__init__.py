"""The demo's people and agents: written by us, seeded, and without any model."""
