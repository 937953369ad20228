"""What goes into a request, and in which order."""
