"""Runs in an instance: a look at a page by somebody who is not signed in."""

from __future__ import annotations

import sys

from django.test import Client


def print_page(path: str) -> None:
    """The status, whether the samples of patterns are loaded, then the page."""
    answer = Client().get(path, headers={"host": "127.0.0.1"})
    loaded = "inspector.patterns.page" in sys.modules
    page = answer.content.decode()
    sys.stdout.write(f"{answer.status_code} {loaded} {page}")
