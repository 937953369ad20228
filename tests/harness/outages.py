"""Instances whose database can be taken away and given back."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.harness import parts
from tests.harness.instances import Instance, instance


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """An instance whose database can be taken away, for a block."""

    instance: Instance
    without_database: Callable[[], AbstractContextManager[None]]


@contextmanager
def unreadable(file: Path) -> Iterator[None]:
    """A folder in the place of the database; rights would not stop root."""
    kept = file.with_suffix(".kept")
    file.rename(kept)
    file.mkdir()
    yield
    file.rmdir()
    kept.rename(file)


class Postgres:
    """A server that is stopped and started again, as an operator does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.programs = parts.postgres_programs(folder)
        self._running = ExitStack()
        parts.make_cluster(self.programs, folder)

    def start(self) -> None:
        server = parts.running_postgres(self.programs, self.folder, durable=False)
        self._running.enter_context(server)

    def stop(self) -> None:
        self._running.close()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        self.stop()
        yield
        self.start()


@contextmanager
def interruptible(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """With the project acme, and on PostgreSQL a server of its own."""
    with ExitStack() as stack:
        postgres = None
        if os.environ.get("DATABASE_URL"):
            postgres = Postgres(stack.enter_context(parts.temporary_folder()))
            stack.callback(postgres.stop)
            postgres.start()
            monkeypatch.setenv("DATABASE_URL", parts.local_url(postgres.folder))
        made = stack.enter_context(instance(folder / "instance"))
        # Not as a copy of others, which lie on a server that stays.
        made.call("tests.harness.instances:make_tables")
        made.managed("create_project", "acme")
        yield Place(
            instance=made,
            without_database=postgres.stopped
            if postgres
            else lambda: unreadable(made.data / "memoryhub.sqlite3"),
        )
