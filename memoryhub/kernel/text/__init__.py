"""Text, names and their encodings, without knowledge of threads."""
