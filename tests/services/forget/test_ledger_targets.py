"""Ledger targets of a whole subject: the names of its threads, as digests."""

from __future__ import annotations

from datetime import timedelta

import pytest
import time_machine
from django.conf import settings

from memoryhub.models.erasures import Erasure
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.forget import ledger_targets
from memoryhub.vault.keys import blind_index, keys
from memoryhub.vault.proof import ledger
from tests.cast.factories import make_thread
from tests.cast.forgetting import forget, make_person, plan

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def ann(agent: Agent) -> Subject:
    make_person(agent, "bob")
    return make_person(agent, "ann", threads=2)


def digests(agent: Agent, *names: str) -> list[str]:
    project = keys.get_project_key(agent.project)
    return [blind_index.digest_thread_name(project, name).hex() for name in names]


def test_thread_name_digests_stand_in_the_intent_line_alone(
    agent: Agent, ann: Subject
) -> None:
    """Include all threads of the subject alone, also one that was erased before."""
    first = Thread.objects.get(name="ann-1")
    forget(ann, "thread", thread=first)
    ann.refresh_from_db()
    row = forget(ann)
    told = [line for line in ledger.iter_lines() if line.erasure == row.id]
    assert [(line.kind, len(line.targets)) for line in told] == [
        ("intent", 2),
        ("done", 0),
    ]
    expected = digests(agent, "ann-1", "ann-2")
    assert [*told[0].targets] == expected
    assert [
        each.hex() for each in ledger_targets.parse_names_digests(told[0])
    ] == expected
    assert b"ann-" not in ledger.path().read_bytes()


def test_thread_name_older_than_all_backups_is_left_out(
    agent: Agent, ann: Subject
) -> None:
    later = clock.now() + timedelta(days=settings.BACKUP_DAYS)
    row = Erasure(scope="subject", subject=ann, project_id=agent.project)
    assert len(ledger_targets.build_targets(row)) == 2
    with time_machine.travel(later):
        make_thread(agent, "ann-3", user_id="ann")
        assert len(ledger_targets.build_targets(row)) == 3
    with time_machine.travel(later + timedelta(days=2)):
        assert ledger_targets.build_targets(row) == digests(agent, "ann-3")


def test_thread_being_imported_has_no_ledger_target(agent: Agent, ann: Subject) -> None:
    Thread.objects.filter(name="ann-1").update(status=Thread.Status.IMPORTING)
    row = plan(ann)
    assert ledger_targets.build_targets(row) == digests(agent, "ann-2")
    Thread.objects.filter(name="ann-1").update(status=Thread.Status.OPEN)
