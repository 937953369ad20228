from __future__ import annotations

from pathlib import Path

import pytest
from pytest_django import Settings

from memoryhub.vault.keys import checks

SQLITE = "django.db.backends.sqlite3"
POSTGRES = "django.db.backends.postgresql"


@pytest.mark.parametrize(
    ("engine", "database", "ring", "found"),
    [
        (SQLITE, "/data/keys.sqlite3", "/data/kek.json", ["keys"]),
        (SQLITE, "/data/keys.sqlite3", "/secret/kek.json", []),
        (POSTGRES, "keys", "/data/kek.json", []),
    ],
)
def test_ring_in_the_folder_of_a_database_is_beside_it(
    engine: str, database: str, ring: str, found: list[str]
) -> None:
    databases = {"keys": {"ENGINE": engine, "NAME": database}}
    assert checks.list_databases_beside(Path(ring), databases=databases) == found


def test_deployment_check_warns_of_a_ring_beside_its_database(
    settings: Settings,
) -> None:
    lite = "sqlite3" in settings.DATABASES["keys"]["ENGINE"]
    folder = Path(settings.DATABASES["keys"]["NAME"]).parent
    settings.KEK_FILE = folder / "kek.json"
    found = checks.check_ring_folder()
    assert [message.id for message in found] == ["memoryhub.W001"] * lite
    settings.KEK_FILE = folder / "elsewhere" / "kek.json"
    assert checks.check_ring_folder() == []
