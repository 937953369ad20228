"""Live updates: panels rendered and pushed to the pages that watch a thread."""
