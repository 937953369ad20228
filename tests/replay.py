"""The check that ends every test of a write: the function `manage.py verify` runs."""

from __future__ import annotations

from memoryhub.models.threads import Thread
from memoryhub.queries import verification


def assert_replays(thread: Thread) -> None:
    """The thread's journal folds to its rows, and its chain is whole."""
    difference = verification.verify(thread)
    assert difference is None, difference
