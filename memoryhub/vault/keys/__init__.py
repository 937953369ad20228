"""Keys of subjects, and what is sealed with them."""
