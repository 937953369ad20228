"""What tests with processes share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.instances import Instance
from tests.instances import instance as fresh_instance


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[Instance]:
    """An instance with its tables and its key ring, and nothing in it."""
    with fresh_instance(tmp_path / "instance") as made:
        made.prepare()
        yield made


@pytest.fixture
def key(instance: Instance) -> str:
    """An API key that reads and writes in the instance's project acme."""
    return instance.call("tests.promises.appender:make_key").strip()
