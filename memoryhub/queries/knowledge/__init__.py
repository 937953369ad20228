"""What is known of subjects beyond one thread. Never writes."""
