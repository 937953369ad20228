"""Observing: long threads stand in requests as dated observations. Pure."""
