from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from pytest_django import Settings

from memoryhub.models.erasures import Erasure
from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.services.forget import ballast as disk
from memoryhub.services.people import subjects
from memoryhub.workers import ballast


@pytest.fixture(autouse=True)
def mine(settings: Settings) -> Iterator[None]:
    settings.BALLAST = settings.DATA_DIR / "ballast-of-this-test"
    settings.BALLAST_BYTES = 1 << 20
    yield
    disk.release_ballast()


@pytest.mark.django_db
def test_ballast_is_made_once_and_again_after_its_release() -> None:
    assert [ballast.keep(clock.now()) for _ in range(3)] == [1, 0, 0]
    assert disk.is_complete()
    assert disk.release_ballast()
    assert ballast.keep(clock.now()) == 1


@pytest.mark.django_db
def test_ballast_is_not_made_during_an_erasure(acme: Project) -> None:
    now = clock.now()
    row = Erasure.objects.create(
        project=acme,
        subject=subjects.find_or_create(acme.id, "mia"),
        scope=Erasure.Scope.SUBJECT,
        reason="test",
        actor="command",
        epoch=1,
        created_at=now,
        updated_at=now,
        expires_at=now + timedelta(minutes=15),
    )
    # A plan needs no room yet.
    assert ballast.keep(now) == 1
    disk.release_ballast()
    for state, made in (("fenced", 0), ("scrubbed", 0), ("complete", 1)):
        row.state, row.confirmed_at = state, now
        row.save()
        assert ballast.keep(now) == made, state
