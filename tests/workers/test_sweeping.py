from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
from django.contrib.sessions.models import Session
from django.utils import timezone

from memoryhub.journal import KeyedRequest
from memoryhub.models.access.operators import SignInFailure, SignInLink
from memoryhub.models.events import Event, RequestKey
from memoryhub.models.keys import SubjectKey
from memoryhub.models.privacy import list_declared_models
from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.services.access import operators
from memoryhub.services.access.api_keys import Agent
from memoryhub.vault.keys import keys
from memoryhub.workers import sweeping
from tests.cast import bundled, factories
from tests.cast.factories import append

pytestmark = pytest.mark.django_db


def test_request_keys_are_kept_for_a_day(agent: Agent) -> None:
    append(agent, "t-1", "one", request=KeyedRequest(key="a", fingerprint=b"x"))
    now = RequestKey.objects.get().created_at
    assert sweeping.delete_request_keys(now + timedelta(hours=24)) == 0
    assert sweeping.delete_request_keys(now + timedelta(hours=24, seconds=1)) == 1
    assert not RequestKey.objects.exists()


def test_sweep_removes_more_than_a_batch(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping, "BATCH", 2)
    for n in range(5):
        append(agent, "t-1", n, request=KeyedRequest(key=str(n), fingerprint=b"x"))
    assert sweeping.delete_request_keys(timezone.now() + timedelta(hours=25)) == 5


def test_subject_key_without_a_subject_is_swept_after_an_hour(agent: Agent) -> None:
    append(agent, "t-1", "one")
    orphan = uuid4()
    keys.create_subject_key(orphan, project_id=agent.project)
    now = SubjectKey.objects.using("keys").get(subject=orphan).created_at
    assert sweeping.delete_orphan_keys(now + timedelta(minutes=59)) == 0
    assert sweeping.delete_orphan_keys(now + timedelta(minutes=61)) == 1
    left = SubjectKey.objects.using("keys").values_list("subject", flat=True)
    assert set(left) >= set(Subject.objects.values_list("id", flat=True))
    assert orphan not in left


def test_used_or_expired_links_are_swept() -> None:
    ann = operators.add("ann")
    used, _, alive = (operators.make_link(ann, minutes) for minutes in (15, 1, 30))
    operators.use_link(used)
    assert sweeping.delete_sign_ins(timezone.now() + timedelta(minutes=5)) == 2
    assert SignInLink.objects.count() == 1
    assert operators.use_link(alive) == ann


def test_expired_sessions_and_failures_are_swept() -> None:
    now = timezone.now()
    for name, end in (("over", now), ("alive", now + timedelta(hours=1))):
        Session.objects.create(session_key=name, session_data="", expire_date=end)
    for days in (29, 31):
        typed = f"d{days}".encode()
        at = now - timedelta(days=days)
        SignInFailure.objects.create(at=at, name=typed, address=b"")
    assert sweeping.delete_sign_ins(now) == 2
    assert Session.objects.get().session_key == "alive"
    assert bytes(SignInFailure.objects.get().name) == b"d29"


# Imports of bundles that were killed


@pytest.fixture
def left(acme: Project) -> list[Thread]:
    """Return threads left behind by an import: a parent and its fork, with all rows."""
    agent = factories.make_agent(acme)
    bundled.live_in_threads(agent)
    threads = Thread.objects.filter(project=acme)
    threads.update(status="importing", listed_at=clock.now())
    return list(threads)


def importing() -> int:
    return Thread.objects.filter(status="importing").count()


@pytest.mark.no_replay
def test_leftovers_of_an_import_go_with_all_their_rows(left: list[Thread]) -> None:
    now = clock.now()
    assert (
        sweeping.delete_imports(now + sweeping.ORPHANED_AFTER - timedelta(minutes=1))
        == 0
    )
    assert importing() == len(left)
    assert (
        sweeping.delete_imports(now + sweeping.ORPHANED_AFTER + timedelta(minutes=1))
        == 3
    )
    assert importing() == 0
    for model, privacy in list_declared_models().items():
        if privacy.subject == "thread__subject":
            assert not model._default_manager.filter(thread__in=left).exists(), model
    assert not Event.objects.filter(thread__in=left).exists()


@pytest.mark.no_replay
def test_import_that_goes_on_is_left_alone(left: list[Thread]) -> None:
    """The import's first threads were written long ago, its last one just now."""
    later = clock.now() + 2 * sweeping.ORPHANED_AFTER
    Thread.objects.filter(id=left[2].id).update(listed_at=later)
    assert sweeping.delete_imports(later) == 0
    assert importing() == 3
    Thread.objects.update(status="open")


def test_open_thread_is_never_swept(acme: Project) -> None:
    factories.append(factories.make_agent(acme), "t-1", "hello")
    assert sweeping.delete_imports(clock.now() + 9 * sweeping.ORPHANED_AFTER) == 0
    assert Thread.objects.count() == 1
