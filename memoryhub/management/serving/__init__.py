"""The server as a process: its address and what it sends."""
