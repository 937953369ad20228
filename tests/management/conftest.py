"""Instances of their own for commands: fresh, or with tables and a key ring."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.instances import Instance
from tests.instances import instance as fresh_instance


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Instance]:
    """An instance that nothing has touched."""
    with fresh_instance(tmp_path / "instance") as made:
        yield made


@pytest.fixture
def instance(empty: Instance) -> Instance:
    """An instance with its tables and its key ring, and nothing in it."""
    empty.prepare()
    return empty
