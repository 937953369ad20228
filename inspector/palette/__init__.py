"""The palette: where one goes and what one does, by typing a little of it."""
