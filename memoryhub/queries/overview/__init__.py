"""What a project did, and what in it needs a look: the overview's figures."""
