"""Observing: dated observations that replace old messages of long threads. Pure."""
