"""P22: migrations go back and forward again, and exports stay equal."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.harness.instances import Instance

pytestmark = pytest.mark.slow

#: The last one before the newest, and all that upgrade a database.
EARLIER = ("0023", "0002")
#: Of one command, at night: a rebuild folds every event anew.
NIGHT_SECONDS = 3_600
#: Told of each export itself: its instant, and who exported before.
OF_THE_EXPORT = {"manifest.json", "README.md", "access.jsonl"}


@pytest.mark.promise("P22", load="{events:,} events, back by one and by all upgrades")
@pytest.mark.parametrize(
    "events", [10_000, pytest.param(1_000_000, marks=pytest.mark.nightly)]
)
@pytest.mark.timeout(4 * NIGHT_SECONDS)
def test_migrations_back_and_forward_keep_exports(
    instance: Instance, tmp_path: Path, events: int
) -> None:
    """Columns and rows that follow from the journals come back by a rebuild."""
    patient = replace(instance, seconds=NIGHT_SECONDS)
    patient.call("tests.promises.export.bundling:live_in_project", events)
    whole = export_digests(patient, tmp_path / "before.zip")
    assert "events.jsonl" in whole
    for earlier in EARLIER:
        patient.managed("migrate", "memoryhub", earlier)
        patient.managed("migrate")
        patient.managed("rebuild")
        assert "every chain is whole" in patient.managed("verify", "--all")
        assert export_digests(patient, tmp_path / "again.zip") == whole


def export_digests(instance: Instance, path: Path) -> dict[str, str]:
    """Export ann; return digests of the bundle's files, which need not fit in memory.

    Ids and chains are compared, too: the instance is the same.
    """
    path.unlink(missing_ok=True)
    done = instance.manage("export", "acme", "-o", path, stdin="ann\n")
    assert done.returncode == 0, done.stderr
    found = {}
    with ZipFile(path) as bundle:
        for name in sorted({*bundle.namelist()} - OF_THE_EXPORT):
            with bundle.open(name) as file:
                digest = hashlib.sha256()
                while chunk := file.read(1 << 20):
                    digest.update(chunk)
                found[name] = digest.hexdigest()
    return found
