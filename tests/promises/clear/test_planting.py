"""Canaries themselves: every way in is used, and all texts come out again."""

from __future__ import annotations

import pytest

from tests.harness.instances import UNLIMITED, Instance
from tests.promises.clear.planting import Canaries, Planter
from tests.promises.journal.clients import Client


@pytest.mark.promise("P13", load="every way in, so that a scan proves something")
def test_planted_canaries_are_accepted_and_read_back(
    instance: Instance, key: str
) -> None:
    canaries = Canaries()
    with (
        instance.serve(**UNLIMITED) as server,
        Client(server.port, key) as client,
    ):
        said = Planter(client, canaries, canaries.plant_text("user_id")).everything()
    assert len(canaries.planted) > 60
    assert len(canaries.names) > 20
    # Answers carry what was written, so that a scan of them would be no proof.
    text = "".join(said)
    assert sum(each in text for each in canaries.texts) > 20
