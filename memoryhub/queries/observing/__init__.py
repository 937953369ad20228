"""What is observed of threads. Never writes."""
