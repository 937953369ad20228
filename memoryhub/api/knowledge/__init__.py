"""What is known of subjects beyond one thread, on the wire."""
