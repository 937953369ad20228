"""Text and names, and how they are written down; knows no thread."""
