"""P22: migrations go back and forward again, and exports stay equal."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cast import bundled
from tests.harness.instances import Instance
from tests.promises.export.test_exports import export

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

#: The last one before the newest, and all that upgrade a database.
EARLIER = ("0022", "0002")
EVENTS = 10_000


@pytest.mark.promise("P22", load=f"{EVENTS:,} events, back by one and by all upgrades")
def test_migrations_back_and_forward_keep_exports(
    instance: Instance, tmp_path: Path
) -> None:
    """Columns and rows that follow from the journals come back by a rebuild."""
    instance.call("tests.promises.export.bundling:live_in_project", EVENTS)
    whole = bundled.comparable(
        bundled.open_bundle(export(instance, tmp_path / "before.zip"))
    )
    for earlier in EARLIER:
        instance.managed("migrate", "memoryhub", earlier)
        instance.managed("migrate")
        instance.managed("rebuild")
        assert "every chain is whole" in instance.managed("verify", "--all")
        again = bundled.open_bundle(export(instance, tmp_path / f"{earlier}.zip"))
        assert bundled.comparable(again) == whole
