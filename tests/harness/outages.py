"""Servers that tests take away and give back, and instances on them."""

from __future__ import annotations

import os
import shutil
import signal
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.harness import parts
from tests.harness.instances import Instance, instance


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Instance whose database can be taken away, for a block."""

    instance: Instance
    without_database: Callable[[], AbstractContextManager[None]]


@contextmanager
def unreadable(file: Path) -> Iterator[None]:
    """Put a folder in place of the database; file rights would not stop root."""
    kept = file.with_suffix(".kept")
    file.rename(kept)
    file.mkdir()
    yield
    file.rmdir()
    kept.rename(file)


class Stoppable(ABC):
    """Server that is stopped and started again, as an operator does."""

    def __init__(self) -> None:
        self._running = ExitStack()

    @abstractmethod
    def run(self) -> AbstractContextManager[None]:
        """Run the server, which answers, for a block."""

    def start(self) -> None:
        self._running.enter_context(self.run())

    def stop(self) -> None:
        self._running.close()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        self.stop()
        yield
        self.start()


class Postgres(Stoppable):
    """PostgreSQL server with an empty cluster."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.programs = parts.postgres_programs(folder)
        parts.make_cluster(self.programs, folder)

    def run(self) -> AbstractContextManager[None]:
        return parts.running_postgres(self.programs, self.folder, durable=False)


class Redis(Stoppable):
    """Redis server that can also be suspended."""

    def __init__(self, place: Path) -> None:
        super().__init__()
        found = shutil.which("redis-server", path=parts.search_path())
        assert found is not None, "grown tests run where there is a Redis"
        self.program, self.place = found, place

    def run(self) -> AbstractContextManager[None]:
        return parts.redis_server(self.program, self.place)

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Suspend the server: it takes connections, and answers nothing."""
        process = self._process()
        os.kill(process, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(process, signal.SIGCONT)

    def _process(self) -> int:
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(str(self.place))
            line.sendall(b"INFO server\r\n")
            info = line.recv(65_536).decode()
        return int(info.partition("process_id:")[2].split()[0])


@contextmanager
def interruptible(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """Yield a place with the project acme, and on PostgreSQL its own server."""
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
