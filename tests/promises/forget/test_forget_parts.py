"""Forgetting a part of a subject who is still written to: no writer is kept out."""

from __future__ import annotations

import json

import pytest

from memoryhub.services.forget.erasures import A_DAY
from tests.harness.instances import UNLIMITED, Instance
from tests.promises.journal.clients import Client
from tests.promises.journal.late_writers import PartRace, await_complete

pytestmark = pytest.mark.slow

NIGHT_SECONDS = 3_600
SCOPES = ("thread", "record", "before")


@pytest.mark.promise("P14", load="{rounds} races × {writers} writers, none kept out")
@pytest.mark.parametrize(
    ("rounds", "writers"),
    [
        pytest.param(3, 3, id="some"),
        pytest.param(200, 8, id="many", marks=pytest.mark.nightly),
    ],
)
@pytest.mark.timeout(NIGHT_SECONDS)
def test_forget_of_a_part_is_final(
    instance: Instance, rounds: int, writers: int
) -> None:
    """Appends, forks and derived pages are erased or refused: no third way."""
    told = instance.call("tests.promises.forget.erasing:make_keys", "acme", str(rounds))
    writing, *forgetting = json.loads(told)
    instance.call("tests.promises.journal.recounts:install")
    races: dict[str, PartRace] = {}
    with instance.serve(**UNLIMITED) as server:
        for n in range(rounds):
            race = PartRace(
                port=server.port,
                keys=(writing, forgetting[n // A_DAY]),
                name=f"ann-{n}",
                scope=SCOPES[n % len(SCOPES)],
                writers=writers,
            )
            races[race.run()] = race
            assert (race.late, race.odd) == ([], [])
        with Client(server.port, forgetting[0]) as client:
            await_complete(client, races)
    found = json.loads(
        instance.call("tests.promises.forget.erasing:show_parts", "acme")
    )
    recounted = json.loads(instance.call("tests.promises.journal.recounts:show"))
    for erasure, race in races.items():
        told = found[erasure]
        assert (told["state"], told["canaries"]) == ("active", 0), race.scope
        assert told["fenced"] == told["erased"], race.scope
        # What is gone is counted from outside, and what stays is all there.
        assert told["erased"] == recounted[told["subject"]], race.scope
        assert told["erased"]["events"] == told["gone"] > race.writers, race.scope
        assert len(told["own"]) == len(race.own) > 0, race.scope
    verified = instance.awaited("verify", "--all", seconds=NIGHT_SECONDS)
    assert "every chain is whole" in verified
