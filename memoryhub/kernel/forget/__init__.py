"""What erasing takes out of a state."""
