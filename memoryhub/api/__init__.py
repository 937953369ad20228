"""The agent API: JSON over HTTP, described by its OpenAPI document."""

from memoryhub.api.application import api

__all__ = ["api"]
