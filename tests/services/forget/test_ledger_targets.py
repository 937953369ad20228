"""What a line of the ledger says of a whole person: her threads' names, as digests."""

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
    project = keys.project_key(agent.project)
    return [blind_index.thread_name(project, name).hex() for name in names]


def test_the_names_of_her_threads_stand_in_the_first_line_alone(
    agent: Agent, ann: Subject
) -> None:
    """All of hers and no other's, one that was erased before among them."""
    first = Thread.objects.get(name="ann-1")
    forget(ann, "thread", thread=first)
    ann.refresh_from_db()
    row = forget(ann)
    told = [line for line in ledger.lines() if line.erasure == row.id]
    assert [(line.kind, len(line.targets)) for line in told] == [
        ("intent", 2),
        ("done", 0),
    ]
    expected = digests(agent, "ann-1", "ann-2")
    assert [*told[0].targets] == expected
    assert [each.hex() for each in ledger_targets.names_digests(told[0])] == expected
    assert b"ann-" not in ledger.path().read_bytes()


def test_a_name_that_any_backup_knows_need_not_be_told(
    agent: Agent, ann: Subject
) -> None:
    later = clock.now() + timedelta(days=settings.BACKUP_DAYS)
    row = Erasure(scope="subject", subject=ann, project_id=agent.project)
    assert len(ledger_targets.targets(row)) == 2
    with time_machine.travel(later):
        make_thread(agent, "ann-3", user_id="ann")
        assert len(ledger_targets.targets(row)) == 3
    with time_machine.travel(later + timedelta(days=2)):
        assert ledger_targets.targets(row) == digests(agent, "ann-3")


def test_one_on_its_way_in_has_no_name_yet(agent: Agent, ann: Subject) -> None:
    Thread.objects.filter(name="ann-1").update(status=Thread.Status.IMPORTING)
    row = plan(ann)
    assert ledger_targets.targets(row) == digests(agent, "ann-2")
    Thread.objects.filter(name="ann-1").update(status=Thread.Status.OPEN)
