"""What events are and what they fold to."""
