"""Definitions of the tools that the hub gives to a model, and calls of these tools."""
