from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from pytest_django import Settings

from memoryhub.models.keys import KekCheck, KeyMeta
from memoryhub.models.projects import Instance
from memoryhub.vault.keys import keyring, keys
from memoryhub.vault.keys.keys import SubjectKeys
from memoryhub.vault.keys.ring_file import Ring

Born = Callable[[], SubjectKeys]


@pytest.fixture
def kek_file(tmp_path: Path, settings: Settings) -> Iterator[Path]:
    """Return the path of this test's ring, where no file is yet."""
    path = tmp_path / "data" / "kek.json"
    path.parent.mkdir()
    settings.KEK_FILE = path
    settings.KEK_FILE_IS_DEFAULT = True
    keyring.reset()
    keys.reset()
    yield path
    keyring.reset()
    keys.reset()


@pytest.fixture
def first_start(kek_file: Path, db: None) -> Path:
    """Return the ring's path, with two databases that were never used."""
    for table in (KekCheck, KeyMeta, Instance):
        table._default_manager.all().delete()
    return kek_file


@pytest.fixture
def ring(first_start: Path) -> Ring:
    """Return a ring in force over two empty databases, as after a first start."""
    return keyring.prepare(empty=True)


@pytest.fixture
def project() -> UUID:
    return uuid4()


@pytest.fixture
def born(ring: Ring, project: UUID) -> Born:
    """Make a new subject's keys and open them."""

    def make_keys() -> SubjectKeys:
        subject = uuid4()
        keys.create_subject_key(subject, project_id=project)
        return keys.get_subject_keys(subject, epoch=1)

    return make_keys


@pytest.fixture
def ann(born: Born) -> SubjectKeys:
    return born()


@pytest.fixture
def bob(born: Born) -> SubjectKeys:
    return born()
