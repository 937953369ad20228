"""The command `scan`: output and exit codes."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

import pytest

from memoryhub.models.erasures import Erasure
from memoryhub.models.events import Event
from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.services.people import subjects
from memoryhub.services.scan import scan_probes
from memoryhub.vault.scan import targets
from tests.cast.factories import append, make_agent, make_project, make_thread
from tests.harness.instances import Instance

PLACE = "tests.management.privacy.test_scan"


def leave_behind() -> None:
    """Make an erasure that claims its rows are gone, while one payload remains."""
    agent = make_agent(make_project("zeta"))
    make_thread(agent, user_id="mia")
    append(agent, "t-1", "some content")
    event = Event.objects.exclude(payload=None).latest("at")
    assert event.payload is not None
    needle = targets.build_nonce_target(bytes(event.payload))
    now = clock.now()
    Erasure.objects.create(
        project=Project.objects.get(slug="zeta"),
        subject=subjects.find_or_create(agent.project, "mia"),
        scope=Erasure.Scope.RECORD,
        state=Erasure.State.SCRUBBED,
        reason="test",
        actor="command",
        epoch=1,
        needles=targets.pack_targets([needle]),
        created_at=now,
        updated_at=now,
        confirmed_at=now,
        expires_at=now + timedelta(minutes=15),
    )
    sys.stdout.write(needle.data.hex())


def drop() -> None:
    Erasure.objects.update(state=Erasure.State.CANCELLED)


@pytest.mark.parametrize("words", [[], ["--self-test"]])
def test_privacy_scan_finds_its_own_probes(
    instance: Instance, words: list[str]
) -> None:
    done = instance.manage("scan", *words)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    found = [line for line in lines if line.startswith("probe ")]
    assert {line.split(":")[0].removeprefix("probe ") for line in found} >= set(
        scan_probes.ENCODERS
    )
    assert all(line.endswith(": found") for line in found)
    assert "backups" in lines[-1]
    assert "Nothing is where it should not be." in done.stderr
    assert '"scanned"' in instance.managed("audit", "export")


def test_scan_reports_leftovers_by_exit_code_without_the_needle(
    instance: Instance,
) -> None:
    needle = instance.call(f"{PLACE}:leave_behind").splitlines()[-1]
    assert len(needle) == 24
    done = instance.manage("scan")
    assert done.returncode == 1, done.stderr
    assert "undeclared: nonce in rows memoryhub_event by raw" in done.stdout
    assert "where nothing should be" in done.stderr
    assert needle not in (done.stdout + done.stderr).lower()
    # A scan skips the needles of a cancelled erasure.
    instance.call(f"{PLACE}:drop")
    assert instance.manage("scan").returncode == 0


def test_scan_fails_when_a_store_is_away(instance: Instance, tmp_path: Path) -> None:
    away = {"REDIS_URL": f"unix://{tmp_path / 'none.sock'}"}
    done = instance.manage("scan", "--self-test", **away)
    assert done.returncode == 2
    assert "scan_void" in done.stderr
    assert "probe redis: NOT FOUND" in done.stdout
    assert "Traceback" not in done.stderr
