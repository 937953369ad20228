"""Search for erased values in bytes, containers included."""
