"""Backups of an instance's databases, as an operator takes and restores them.

Copies of SQLite's files, or of PostgreSQL's databases on the same server. Nobody may
be using the instance meanwhile.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.harness import parts
from tests.harness.instances import Instance

_ALIASES = {"memory": "memoryhub", "keys": "keys"}


@dataclass(frozen=True, slots=True)
class Backups:
    """Last backup of each database: `memory`, `keys`."""

    instance: Instance
    made: set[str] = field(default_factory=set)

    def take(self, *aliases: str) -> None:
        for alias in aliases:
            self.made.add(alias)
            if self.instance.urls:
                parts.copy(self._url(alias), self._copy(alias))
                continue
            folder = self._folder(alias)
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            for file in self._files(alias):
                shutil.copy(file, folder)
            assert any(folder.iterdir())

    def restore(self, *aliases: str) -> None:
        for alias in aliases:
            assert alias in self.made
            if self.instance.urls:
                parts.copy(self._copy(alias), self._url(alias))
                continue
            for file in self._files(alias):
                file.unlink()
            for file in self._folder(alias).iterdir():
                shutil.copy(file, self.instance.data)

    def drop(self) -> None:
        """Drop the databases, which would stay on the server when the folder goes."""
        for alias in self.made if self.instance.urls else ():
            parts.drop(self._copy(alias))

    def _url(self, alias: str) -> str:
        return self.instance.urls[[*_ALIASES].index(alias)]

    def _copy(self, alias: str) -> str:
        return f"{self._url(alias)}_backup"

    def _folder(self, alias: str) -> Path:
        return self.instance.folder / f"backup-{alias}"

    def _files(self, alias: str) -> list[Path]:
        return [*self.instance.data.glob(f"{_ALIASES[alias]}.sqlite3*")]


@contextmanager
def backups(instance: Instance) -> Iterator[Backups]:
    """Yield a place for backups, which is gone after the block."""
    made = Backups(instance)
    try:
        yield made
    finally:
        made.drop()
