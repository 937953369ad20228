"""Events, and the state of a thread that they fold to."""
