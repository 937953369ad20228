"""P27: a backup restores by itself to a hub that serves, in its time."""

from __future__ import annotations

import json
import secrets
import time
from pathlib import Path

import pytest

from memoryhub.models.events import Event
from memoryhub.services.access import projects
from tests.cast import bundled, factories
from tests.harness.backups import backups
from tests.harness.instances import Instance, Server
from tests.management.privacy.test_replays import SLUG, USER, ask
from tests.promises.export.test_exports import export
from tests.promises.journal.appender import tell
from tests.promises.journal.clients import Client

HERE = "tests.promises.export.test_restores"
FORGET = "tests.management.privacy.test_replays:forget"
EVENTS, THREADS, AT_ONCE = 10_000, 10, 100
#: So long that all of them are a tenth of a gigabyte.
MESSAGE_BYTES = 10_000
SECONDS_A_GB = 600.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def remember() -> None:
    """Make ann's many messages, and those of one who goes. Runs in the instance."""
    agent = factories.make_agent(projects.create(SLUG))
    for user in (USER, "ann"):
        for n in range(1 if user == USER else THREADS):
            name = f"of-{user}-{n}" if n else f"of-{user}"
            factories.make_thread(agent, name, user_id=user)
            for _ in range(1 if user == USER else EVENTS // THREADS // AT_ONCE):
                texts = (secrets.token_hex(MESSAGE_BYTES // 2) for _ in range(AT_ONCE))
                factories.append(agent, name, *texts)


def count() -> None:
    """Print how many events are stored. Runs in the instance."""
    tell(json.dumps(Event.objects.count()))


def count_events(instance: Instance) -> int:
    return int(instance.call(f"{HERE}:count").split()[-1])


@pytest.mark.promise("P27", load=f"{EVENTS:,} events of 10 KB, then an erasure")
def test_backup_of_many_events_restores_in_its_time(
    instance: Instance, tmp_path: Path
) -> None:
    """Only what came after the backup is lost, and the forgotten is so again."""
    instance.call(f"{HERE}:remember")
    key = instance.managed("create_key", SLUG).strip()
    with backups(instance) as kept:
        kept.take("memory", "keys")
        events = count_events(instance)
        assert events > EVENTS
        before = export_ann(instance, tmp_path / "before.zip")
        with instance.serve() as server:
            write(server, key)
        instance.call(FORGET, "subject")
        began = time.monotonic()
        kept.restore("memory", "keys")
        assert count_events(instance) == events
        with instance.serve() as server:
            status, text = ask(server.port, "/api/v1/threads")
            assert (status, "erasures_to_replay" in text) == (503, True)
        instance.managed("forget", "--replay")
        instance.managed("anchor", "--anew")
        assert "every chain is whole" in instance.managed("verify", "--all")
        seconds = time.monotonic() - began
        # Before a server runs, which makes levels of pages by itself.
        assert export_ann(instance, tmp_path / "after.zip") == before
        with instance.serve() as server:
            write(server, key)
            with Client(server.port, key) as client:
                assert client.get(f"/threads/of-{USER}").status == 410
    assert seconds < SECONDS_A_GB * EVENTS * MESSAGE_BYTES / 1e9


def export_ann(instance: Instance, path: Path) -> object:
    return bundled.comparable(bundled.open_bundle(export(instance, path)))


def write(server: Server, key: str) -> None:
    with Client(server.port, key) as client:
        assert client.append("of-ann", "a later message").status == 201
