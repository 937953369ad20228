"""The pure kernel: commands in, events out, state folded. No Django, clock or I/O."""
