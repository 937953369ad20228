"""What is known of a subject beyond one thread: the home thread's. Pure."""
