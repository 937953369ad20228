"""The check that ends every test of a write: the function `manage.py verify` runs."""

from __future__ import annotations

from memoryhub.journal.log import Origins
from memoryhub.models.threads import Thread
from memoryhub.queries import verification


def assert_replays(thread: Thread, *, origins: Origins | None = None) -> None:
    """The thread's journal folds to its rows, and its chain is whole."""
    difference = verification.verify(thread, origins=origins)
    assert difference is None, difference
