"""Fixtures for all tests: databases with a key ring, and replay after every write."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from memoryhub.journal.writer import Journal, writer
from memoryhub.models.events import Event
from memoryhub.models.keys import KeyMeta
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.services.api_keys import Agent
from memoryhub.vault import keyring
from tests import factories
from tests.replay import assert_replays

DATABASES = ["default", "keys"]

hypothesis_settings.register_profile(
    "memoryhub", deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
)
hypothesis_settings.load_profile("memoryhub")


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    if os.environ.get("DATABASE_URL"):
        # SQLite's own promises are tried in the pass that runs on it.
        others = [i for i in items if "sqlite" not in getattr(i, "fixturenames", ())]
        config.hook.pytest_deselected(items=[i for i in items if i not in others])
        items[:] = others
    for item in items:
        mark = item.get_closest_marker("django_db")
        if mark is None:
            continue
        options = {**mark.kwargs, "databases": mark.kwargs.get("databases", DATABASES)}
        item.add_marker(pytest.mark.django_db(*mark.args, **options), append=False)


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: object) -> None:
    with django_db_blocker.unblock():  # type: ignore[attr-defined]  # private type
        keyring.prepare(empty=True)


@pytest.fixture(autouse=True)
def every_journal_replays(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever a test wrote must fold to what is stored; nobody can forget it."""
    mark = request.node.get_closest_marker("django_db")
    if mark is None:
        yield
        return
    request.getfixturevalue("_django_db_helper")
    if not KeyMeta.objects.exists():
        # The flush after a transactional test took it.
        keyring.prepare(empty=True)
    yield
    if request.node.get_closest_marker("no_replay") is None:
        for thread in Thread.objects.select_related("subject"):
            assert_replays(thread)
    if mark.kwargs.get("transaction"):
        # The lawful way to remove events, so that the flush finds none.
        Thread.objects.update(status=Thread.Status.IMPORTING)
        Event.objects.all().delete()


@pytest.fixture(autouse=True)
def fresh_writer() -> Iterator[None]:
    """No state of another test's threads, and no writer left running."""
    writer.journal = Journal()
    yield
    if writer.running:
        writer.stop()


@pytest.fixture
def acme(db: None) -> Project:
    return factories.make_project("acme")


@pytest.fixture
def zeta(db: None) -> Project:
    return factories.make_project("zeta")


@pytest.fixture
def agent(acme: Project) -> Agent:
    """A key of acme that reads and writes."""
    return factories.make_agent(acme)


@pytest.fixture
def stranger(zeta: Project) -> Agent:
    """A key of another project."""
    return factories.make_agent(zeta)
