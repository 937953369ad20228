"""A server, keys of a project for each test, and mem0's own client."""

from __future__ import annotations

import os

os.environ["MEM0_TELEMETRY"] = "false"

from tests.mcp.conftest import key, make_key, project, served

__all__ = ["key", "make_key", "project", "served"]
