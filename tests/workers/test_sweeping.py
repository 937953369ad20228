from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
from axes.models import AccessAttempt
from django.contrib.sessions.models import Session
from django.utils import timezone

from memoryhub.journal import Request
from memoryhub.models.events import RequestKey
from memoryhub.models.keys import SubjectKey
from memoryhub.models.operators import SignInLink
from memoryhub.models.subjects import Subject
from memoryhub.services import operators
from memoryhub.services.api_keys import Agent
from memoryhub.vault import keys
from memoryhub.workers import sweeping
from tests.factories import append

pytestmark = pytest.mark.django_db


def test_request_keys_are_kept_for_a_day(agent: Agent) -> None:
    append(agent, "t-1", "one", request=Request(key="a", fingerprint=b"x"))
    now = RequestKey.objects.get().created_at
    assert sweeping.request_keys(now + timedelta(hours=24)) == 0
    assert sweeping.request_keys(now + timedelta(hours=24, seconds=1)) == 1
    assert not RequestKey.objects.exists()


def test_more_than_a_batch_is_swept(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping, "BATCH", 2)
    for n in range(5):
        append(agent, "t-1", n, request=Request(key=str(n), fingerprint=b"x"))
    assert sweeping.request_keys(timezone.now() + timedelta(hours=25)) == 5


def test_a_key_without_its_subject_goes_after_an_hour(agent: Agent) -> None:
    append(agent, "t-1", "one")
    orphan = uuid4()
    keys.create_subject_key(orphan, project_id=agent.project)
    now = SubjectKey.objects.using("keys").get(subject=orphan).created_at
    assert sweeping.orphan_keys(now + timedelta(minutes=59)) == 0
    assert sweeping.orphan_keys(now + timedelta(minutes=61)) == 1
    left = SubjectKey.objects.using("keys").values_list("subject", flat=True)
    assert set(left) >= set(Subject.objects.values_list("id", flat=True))
    assert orphan not in left


def test_links_that_are_used_or_over_go() -> None:
    ann = operators.add("ann")
    used, _, alive = (operators.make_link(ann, minutes) for minutes in (15, 1, 30))
    operators.use_link(used)
    assert sweeping.sign_ins(timezone.now() + timedelta(minutes=5)) == 2
    assert SignInLink.objects.count() == 1
    assert operators.use_link(alive) == ann


def test_sessions_and_attempts_end() -> None:
    now = timezone.now()
    for name, end in (("over", now), ("alive", now + timedelta(hours=1))):
        Session.objects.create(session_key=name, session_data="", expire_date=end)
    for days in (29, 31):
        attempt = AccessAttempt.objects.create(
            username=f"d{days}", ip_address="127.0.0.1", failures_since_start=1
        )
        at = now - timedelta(days=days)
        AccessAttempt.objects.filter(id=attempt.id).update(attempt_time=at)
    assert sweeping.sign_ins(now) == 2
    assert Session.objects.get().session_key == "alive"
    assert AccessAttempt.objects.get().username == "d29"
