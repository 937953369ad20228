"""What is known of subjects beyond one thread, as people look at it."""
